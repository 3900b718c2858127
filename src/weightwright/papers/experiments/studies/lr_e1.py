"""LR-E1: rank-1 Transformers of depth 1, 3 and 6 memorise a labelled corpus (Figure 1), beside `ww.memorize`.

CoNLL-2003 is not free: its file is given with --data, or any corpus of a token a line with the label last. Without one
a small made-up corpus is taken.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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
from weightwright.papers.experiments.training.batched_models import Group, TokenMap
from weightwright.papers.experiments.training.constructed_networks import describe_certificate
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


#: The label of padding: it is in no loss and no accuracy.
PADDING = -1


def conditions(chosen: Json) -> list[Condition]:
    usual = {"positions": True, "look": max(1, chosen["epochs"] // 20)}
    return [
        Condition("memorized", memorize_corpus, {"seeds": []}),
        *(
            Condition(f"trained-depth{depth}", train, usual | {"depth": depth}, "" if depth == 1 else None)
            for depth in chosen["depths"]
        ),
    ]


def draw_corpus(sentences: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """A made-up corpus: random words; a label depends on the word and on the first word of its sentence."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 200, int(rng.integers(4, 13))).tolist() for _ in range(sentences)]
    texts = [[f"w{word}" for word in one] for one in words]
    return texts, [[f"L{(word + one[0]) % 9}" for word in one] for one in words]


def read_sentences_of(data: str | None, sentences: int, longest: int) -> tuple[list[list[str]], list[list[str]]]:
    """The first sentences of at most `longest` tokens of a corpus (the label is the last column), or made-up ones."""
    if data is None:
        return draw_corpus(sentences)
    from weightwright.memory.corpus import read_corpus

    pairs = zip(*read_corpus(Path(data), -1), strict=True)
    kept = [(x, y) for x, y in pairs if len(x) <= longest and x[0] != "-DOCSTART-"][:sentences]
    return [x for x, _ in kept], [y for _, y in kept]


def as_numbers(texts: list[list[str]], labels: list[list[str]]) -> tuple[Tensor, Tensor, int, int]:
    """Token ids and label ids, (sentences, longest), filled up with 0 and PADDING; how many of each there are.

    Id 0 is kept for padding.
    """
    words = {word: i + 1 for i, word in enumerate(sorted({word for one in texts for word in one}))}
    kinds = {label: i for i, label in enumerate(sorted({label for one in labels for label in one}))}
    longest = max(map(len, texts))
    X = torch.zeros(len(texts), longest, dtype=torch.long)
    Y = torch.full((len(texts), longest), PADDING)
    for i, (x, y) in enumerate(zip(texts, labels, strict=True)):
        X[i, : len(x)] = torch.tensor([words[word] for word in x])
        Y[i, : len(y)] = torch.tensor([kinds[label] for label in y])
    return X, Y, len(words) + 1, len(kinds)


class RankOneLayer(nn.Module):
    """Z + (sum over keys i of softmax_i(a_i b_j) a_i) w_O with a = Z v_1, b = Z v_2; then a feed-forward part."""

    def __init__(self, group: Group, d: int) -> None:
        super().__init__()
        self.v1, self.v2 = TokenMap(group, d, 1, bias=False), TokenMap(group, d, 1, bias=False)
        self.w_O = TokenMap(group, 1, d, bias=False)
        self.up, self.down = TokenMap(group, d, 4 * d), TokenMap(group, 4 * d, d)

    def forward(self, Z: Tensor, hidden: Tensor) -> Tensor:
        a, b = self.v1(Z)[..., 0], self.v2(Z)[..., 0]  # (G, B, n)
        scores = (b[..., :, None] * a[..., None, :]).masked_fill(hidden[..., None, :], -torch.inf)
        Z = Z + self.w_O(torch.softmax(scores, -1) @ a[..., None])
        return Z + self.down(torch.relu(self.up(Z)))


class RankOneTransformer(nn.Module):
    """Token ids (G, B, n) to scores of labels (G, B, n, labels). No layer normalisation, as in the paper."""

    def __init__(
        self, group: Group, words: int, longest: int, labels: int, d: int, depth: int, positions: bool
    ) -> None:
        super().__init__()
        self.words = group.draw_uniform(words, d, fan_in=1)
        self.places = group.draw_uniform(longest, d, fan_in=1) if positions else None
        self.layers = nn.ModuleList(RankOneLayer(group, d) for _ in range(depth))
        self.read = TokenMap(group, d, labels)

    def forward(self, ids: Tensor) -> Tensor:
        models = torch.arange(len(ids), device=ids.device)[:, None, None]
        Z = self.words[models, ids]
        Z = Z if self.places is None else Z + self.places[:, None, : ids.shape[2]]
        for layer in self.layers:
            Z = layer(Z, ids == 0)
        return self.read(Z)


def label_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of every model, mean over the tokens that are no padding. (G,)"""
    losses = nn.functional.cross_entropy(scores.flatten(0, 2), labels.flatten(), ignore_index=PADDING, reduction="none")
    return losses.view(len(scores), -1).sum(1) / (labels != PADDING).flatten(1).sum(1)


def accuracy(scores: Tensor, labels: Tensor) -> list[float]:
    """The share of tokens whose label scores highest, for every model."""
    right = (scores.argmax(-1) == labels) & (labels != PADDING)
    return (right.flatten(1).sum(1) / (labels != PADDING).flatten(1).sum(1)).tolist()


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
