"""LR-E1: rank-1 Transformers of depth 1, 3 and 6 memorise a labelled corpus (Figure 1), beside `ww.memorize`.

CoNLL-2003 is not free: its file is given with --data, or any corpus of a token a line with the label last. Without one
a small made-up corpus is taken.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from weightwright.memory.memorizing import memorize
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.panels import Curves, Picture
from weightwright.papers.experiments.machinery.read import mean_of, stack
from weightwright.papers.experiments.machinery.study import (
    Cells,
    Condition,
    Cut,
    Options,
    Sized,
    Study,
    Summary,
    Variation,
    judge,
    read_texts,
)
from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import Group
from weightwright.papers.experiments.training.constructed_networks import describe_certificate
from weightwright.papers.experiments.training.rank_one import (
    RankOneTransformer,
    accuracy,
    as_numbers,
    label_loss,
    read_sentences_of,
)
from weightwright.papers.experiments.training.training_loop import run_in_pieces, train_models
from weightwright.progress import Tell

TEXTS = read_texts("LR-E1")
#: Training sentences of CoNLL-2003.
_PAPER_SENTENCES = 14_041


def describe_corpus(chosen: Json, options: Options) -> Json:
    """Name, place and digest of the corpus that was asked for."""
    found: Json = {"corpus": "made up", "data": None, "corpus_digest": None}
    if options.data is not None:
        digest = hashlib.sha256(options.data.read_bytes()).hexdigest()
        found = {"corpus": options.data.name, "data": str(options.data), "corpus_digest": digest}
    known = "conll" in found["corpus"].lower()
    sentence = TEXTS.smaller["corpus"].format(**found)
    return found | {"cut": [] if known else [sentence]}


def conditions(chosen: Json) -> list[Condition]:
    usual = {"positions": True, "look": max(1, chosen["epochs"] // 20)}
    return [
        Condition("memorized", memorize_corpus, {"seeds": []}),
        *(
            Condition(f"trained-depth{depth}", train, usual | {"depth": depth}, "" if depth == 1 else None)
            for depth in chosen["depths"]
        ),
    ]


def train(unit: Json, tell: Tell) -> Json:
    """All seeds side by side; training accuracy every `look` epochs, as the paper plots it."""
    group = Group(tuple(unit["seeds"]))
    X, Y, words, labels = as_numbers(*read_sentences_of(unit["data"], unit["sentences"], unit["longest"]))
    X, Y = (part.to(unit["device"]).expand(len(unit["seeds"]), *part.shape) for part in (X, Y))
    model = RankOneTransformer(group, words, X.shape[2], labels, unit["d"], unit["depth"], unit["positions"])
    found: list[list[float]] = []

    def watch(epoch: int) -> None:
        if epoch % unit["look"] == 0:
            found.append(accuracy(run_in_pieces(model, group, X), Y))

    train_models(model, group, X, Y, unit, tell, label_loss, watch)
    return {
        "epochs": [unit["look"] * (k + 1) for k in range(len(found))],
        "accuracy": torch.tensor(found).T.tolist(),
        "parameters": sum(one.numel() for one in model.parameters()) // group.size,
        "words": words,
        "labels": labels,
        "tokens": int((Y[0] >= 0).sum()),
    }


def memorize_corpus(unit: Json, tell: Tell) -> Json:
    """The constructed memory of the same sentences: one rank-1 layer, every label proven."""
    sentences, labels = read_sentences_of(unit["data"], unit["sentences"], unit["longest"])
    net = memorize(sentences, labels, on_conflict="skip", progress=tell)
    answers = net.predict(sentences)
    right = sum(a == b for x, y in zip(answers, labels, strict=True) for a, b in zip(x, y, strict=True))
    about = net.about
    return {
        "accuracy": right / about.tokens,
        "status": describe_certificate(net)["status"],
        "conflicts": len(about.conflicts),
        "parameters": about.parameters,
        "tokens": about.tokens,
    }


def summarise(chosen: Json, results: dict[str, Json]) -> Summary:
    depths, memory = chosen["depths"], results["memorized"]
    trained = [results[f"trained-depth{depth}"] for depth in depths]
    models = {f"trained, depth {depth}": one for depth, one in zip(depths, trained, strict=True)}
    models["trained, depth 1, d = 32"] = results["varied-width"]
    models["trained, depth 1, no positions"] = results["varied-no-positions"]
    cells: Cells = [
        ([words], one | {"last": [curve[-1] for curve in one["accuracy"]]}) for words, one in models.items()
    ]
    first = trained[0]
    cells.append((["constructed, ww.memorize"], {"last": memory["accuracy"], "parameters": memory["parameters"]}))
    quarter = len(first["epochs"]) // 4
    early, errors = (stack([wrong_labels(one, place) for one in trained]) for place in (quarter, -1))
    words = f"share of wrong labels after {first['epochs'][quarter]} epochs against depth"
    faster = fit_trend(words, depths, early, "falls")
    trends = [faster, fit_trend("share of wrong labels at the end against depth", depths, errors, "falls")]
    one_layer = mean_of([curve[-1] for curve in first["accuracy"]])
    reached = ", ".join(str(find_epoch(0.9)(one) or "not reached") for one in trained)
    verdicts = [
        judge(
            "one-layer",
            one_layer >= 0.98,
            one_layer >= 0.9,
            accuracy=one_layer,
            epochs=chosen["epochs"],
            tokens=first["tokens"],
            corpus=chosen["corpus"],
        ),
        judge("deeper", faster["sign"] == "falls", slope=faster["slope"], sign=faster["sign"], reached=reached),
        judge("constructed", memory["status"] == "PROVEN", **memory),
    ]
    curves = {
        "epochs": first["epochs"],
        "accuracy": {str(depth): one["accuracy"] for depth, one in zip(depths, trained, strict=True)},
        "memorized": memory["accuracy"],
    }
    return Summary(trends, cells, verdicts, curves)


def wrong_labels(result: Json, place: int) -> list[float]:
    """The share of wrong labels of each seed; at least half a token, since a share of 0 has no logarithm."""
    return [max(1 - curve[place], 0.5 / result["tokens"]) for curve in result["accuracy"]]


def read_wrong(chosen: Json, found: list[Json]) -> float:
    """The mean over seeds at the end."""
    return max(1 - mean_of([curve[-1] for curve in found[0]["accuracy"]]), 0.5 / found[0]["tokens"])


def find_epoch(level: float) -> Any:
    """A reader of a column: the first epoch looked at where the mean over seeds is that high; constructed: 0."""

    def read_epoch(cell: Json) -> int | None:
        if "epochs" not in cell:
            return 0
        pairs = zip(cell["epochs"], np.mean(cell["accuracy"], 0), strict=True)
        return next((epoch for epoch, value in pairs if value >= level), None)

    return read_epoch


def picture(record: Json) -> Picture:
    curves = record["curves"]
    trained = {f"trained, depth {depth}": values for depth, values in curves["accuracy"].items()}
    levels = {"constructed (memorize)": curves["memorized"]}
    title, name, scales = record["settings"]["corpus"], "training accuracy", ("linear", "linear")
    panel = Curves("epoch", curves["epochs"], trained, levels, {}, title, name, scales, markers=False)
    return Picture([[panel]])


LR_E1 = Study(
    texts=TEXTS,
    paper={"accuracy": {"1 layer, 800 epochs": 0.9872}, "epochs": 400},
    settings={
        "sentences": Sized(64, 320, _PAPER_SENTENCES),
        "longest": 40,
        "d": 64,
        "depths": [1, 3, 6],
        "rate": 1e-3,
        "batch": 32,
        "epochs": Sized(60, 100, 400),
        "seeds": Sized(1, 3, 3),
    },
    complete=describe_corpus,
    cut=(
        Cut(
            "sentences",
            {"sentences": _PAPER_SENTENCES, "epochs": 400},
        ),
    ),
    conditions=conditions,
    variations=(
        Variation("width", {"d": 32}),
        Variation("no-positions", {"positions": False}),
    ),
    compared=read_wrong,
    columns={
        "model": None,
        "training accuracy": read.mean("last"),
        "std": read.spread("last"),
        "epochs to 0.9": find_epoch(0.9),
        "epochs to 0.98": find_epoch(0.98),
        "parameters": read.value("parameters"),
    },
    summarise=summarise,
    picture=picture,
)
