"""What reports, circuits, searches and exports make of an interpreter."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.export.compare import samples
from weightwright.report import certificate_facts
from weightwright.report.prompt_picture import plot_prompt


@functools.cache
def built() -> ww.Interpreter:
    return ww.Interpreter(2, 1, 1, heads=2, rows=1, anchors=5, x_max=2.0)


def test_facts_say_what_programs_the_bound_is_about() -> None:
    facts = certificate_facts(built().certificate)
    assert facts["largest_entries"] == {"x_max": 2.0, "w_max": 2.0, "k_max": 4.0, "q_max": 4.0, "v_max": 4.0}
    assert "every program and input within these bounds" in facts["bound_is_about"]
    assert {"interpreter", "attention", "taylor"} <= set(facts["rules"])
    assert facts["boxes"] > 0


def test_a_circuit_names_products_and_attention() -> None:
    vm = built()
    heads = [node for node in vm.net.circuit().nodes if node.type == "head"]
    assert [node.kind for node in heads] == ["product"] * 6 + ["attention"] * 2
    assert all(node.proven == ((-4.0, 4.0),) and 0 < node.error <= vm.certificate.bound for node in heads[:6])


def test_a_search_says_what_to_do_instead() -> None:
    with pytest.raises(ww.WeightwrightError, match=r"compare vm\(x, program\) with program.run\(x\)"):
        ww.search(built().net, 0.1)


def test_prompts_for_comparing_are_programs() -> None:
    """Exports are compared on them: none is refused."""
    net = built().net
    for prompt in samples(net):
        assert np.isfinite(net(prompt).numpy()).all()
        assert float(prompt[..., 1:-2].abs().max()) > 0


def test_a_picture_of_the_prompt(tmp_path: Path) -> None:
    vm = built()
    program = vm.program(np.eye(1), np.eye(1), np.eye(1), rows=[[0.5]])
    plot_prompt(vm, torch.zeros(2, 1, dtype=torch.float64), program, tmp_path / "prompt.png")
    assert (tmp_path / "prompt.png").stat().st_size > 1000
    with pytest.raises(ValueError, match=r"x must be one sequence, \(tokens, 1\)"):
        plot_prompt(vm, torch.zeros(3, 2, 1, dtype=torch.float64), program, tmp_path / "prompt.png")
