"""docs/in_context_learning.md: its tables are those of the stored results, and these say what the page does."""

from __future__ import annotations

import json

import in_context_curve as benchmark
import numpy as np
import pytest
import torch
from in_context_transformer import InContextTransformer, Settings, train

import weightwright as ww

PAGE = benchmark.PAGE.read_text()
FACTS = json.loads((benchmark.RESULTS / "in_context_curve.json").read_text())
TRAINED = json.loads((benchmark.RESULTS / "in_context_transformer.json").read_text())


@pytest.mark.parametrize("letter", ["a", "b"])
def test_the_tables_are_the_stored_results(letter: str) -> None:
    part = PAGE.split(f"<!-- {letter}: written by benchmarks/in_context_curve.py -->")[1]
    assert part.split(f"<!-- {letter}: end -->")[0].strip() == "\n".join(benchmark.tables(FACTS)[letter]).strip()


def test_the_results_say_what_the_page_does() -> None:
    far = FACTS["largest difference of predictions from exact descent, d = 5"]
    ours, proven = (np.array(far[name]) for name in ("ours, 50 steps", "proven bound of ours"))
    assert FACTS["ours"]["status"] == "PROVEN"
    assert (ours <= proven).all()
    assert FACTS["errors within the band"]
    assert FACTS["trained Transformer's fingerprint"] == [TRAINED["fingerprint"]]
    settings = TRAINED["settings"]
    assert f"{TRAINED['parameters']:,} parameters ({settings['layers']} layers, {settings['heads']} heads" in PAGE
    assert f"{TRAINED['steps taken']:,} batches of {settings['batch']} prompts" in PAGE
    assert f"{TRAINED['seconds of the processor, one thread']:,} seconds of one core" in PAGE
    assert f"means of {FACTS['d = 5']['prompts']} prompts" in PAGE


def test_the_trained_model_has_the_usual_interface_and_sees_nothing_ahead() -> None:
    settings = Settings(features=2, points=4, layers=1, width=8, heads=2, batch=4, steps=3)
    model, figures = train(settings)
    assert isinstance(model, InContextTransformer)
    assert figures["steps taken"] == 3
    xs, ys = ww.incontext.RegressionTask(2, 4).sample(3, seed=0)
    before = model(xs, ys).detach()
    ys[:, 2] += 1.0
    after = model(xs, ys).detach()
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3], after[:, 3])
    assert torch.equal(model(xs, ys, [3, 1]).detach(), after[:, [3, 1]])
