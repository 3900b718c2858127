"""LR-E1: rank-1 Transformers of depth 1, 3 and 6 memorise a labelled corpus (Figure 1), beside `ww.memorize`.

CoNLL-2003 is not free: its file is given with --data, or any corpus of a token a line with the label last. Without one
a small made-up corpus is taken.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.memory.memorizing import memorize
from weightwright.papers.experiments.machinery import read
from weightwright.papers.experiments.machinery.checks import check_training
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
    Verdict,
    read_texts,
    yes_or_no,
)
from weightwright.papers.experiments.machinery.study_units import Json, Worker
from weightwright.papers.experiments.machinery.trends import fit_trend
from weightwright.papers.experiments.training.batched_models import Group, TokenMap
from weightwright.papers.experiments.training.constructed_networks import describe_certificate
from weightwright.papers.experiments.training.training_loop import run_in_pieces, train_models

TEXTS = read_texts("LR-E1")
#: Training sentences of CoNLL-2003.
_PAPER_SENTENCES = 14_041


#: The corpus that is made up where none is given.
MADE_UP = "made up"


def describe_corpora(chosen: Json, options: Options) -> Json:
    """Names, places and digests of the corpora that were asked for."""
    places = {path.name: path for path in options.data}
    if len(places) < len(options.data):
        raise ValueError(f"--data: two files have the name {max(path.name for path in options.data)!r}")
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in places.items()}
    known = any("conll" in name.lower() for name in places)
    sentence = TEXTS.smaller["corpus"].format(corpora=", ".join(places) or MADE_UP)
    return {
        "corpora": digests or {MADE_UP: None},
        "data": {name: str(path) for name, path in places.items()},
        "cut": [] if known else [sentence],
    }


#: The label of padding: it is in no loss and no accuracy.
PADDING = -1


def conditions(chosen: Json) -> list[Condition]:
    """Of every corpus a memory and a model of each depth; the shallowest trains twice as long as the others."""
    look = max(1, chosen["epochs"] // 20)
    usual = {"positions": True, "look": look, "schedule": "constant"}
    found = []
    for place, corpus in enumerate(chosen["corpora"]):
        own = {"corpus": corpus, "digest": chosen["corpora"][corpus]}
        short = short_name(corpus)
        found.append(Condition(f"memorized-{short}", memorize_corpus, own | {"seeds": []}))
        for depth in chosen["depths"]:
            given = usual | own | {"depth": depth, "epochs": chosen["epochs"] * (1 + (depth == chosen["depths"][0]))}
            varied_as = f"depth{depth}" if place == 0 and depth == chosen["depths"][0] else None
            found.append(Condition(f"trained-{short}-depth{depth}", train, given, varied_as))
    return found


def draw_corpus(sentences: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """A made-up corpus: random words; a label depends on the word and on the first word of its sentence."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 200, int(rng.integers(4, 13))).tolist() for _ in range(sentences)]
    texts = [[f"w{word}" for word in one] for one in words]
    return texts, [[f"L{(word + one[0]) % 9}" for word in one] for one in words]


def read_sentences_of(unit: Json) -> tuple[list[list[str]], list[list[str]]]:
    """The first sentences of the unit's corpus (the label is the last column), or made-up ones."""
    sentences = unit["sentences"]
    if unit["corpus"] == MADE_UP:
        return draw_corpus(sentences)
    from weightwright.memory.corpus import read_corpus

    pairs = zip(*read_corpus(Path(unit["data"][unit["corpus"]]), -1), strict=True)
    kept = [(x, y) for x, y in pairs if x[0] != "-DOCSTART-"][:sentences]
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


def train(unit: Json, worker: Worker) -> Json:
    """All seeds side by side; training accuracy every `look` epochs, as the paper plots it."""
    group = Group(tuple(unit["seeds"]))
    X, Y, words, labels = as_numbers(*read_sentences_of(unit))
    X, Y = (part.to(unit["device"]).expand(len(unit["seeds"]), *part.shape) for part in (X, Y))
    model = RankOneTransformer(group, words, X.shape[2], labels, unit["d"], unit["depth"], unit["positions"])

    def watch(epoch: int) -> list[float] | None:
        return accuracy(run_in_pieces(model, X), Y) if epoch % unit["look"] == 0 else None

    trained = train_models(model, group, X, Y, unit, worker, label_loss, watch)
    found = trained.watched
    return {
        "epochs": [unit["look"] * (k + 1) for k in range(len(found))],
        "accuracy": torch.tensor(found).T.tolist(),
        "parameters": sum(one.numel() for one in model.parameters()) // group.size,
        "words": words,
        "labels": labels,
        "tokens": int((Y[0] >= 0).sum()),
        "sentences": len(X[0]),
        "checks": {"end": check_training(trained.curve, [], [])["end"]},
    }


def memorize_corpus(unit: Json, worker: Worker) -> Json:
    """The constructed memory of the same sentences: one rank-1 layer, every label proven."""
    sentences, labels = read_sentences_of(unit)
    net = memorize(sentences, labels, on_conflict="skip", progress=worker.tell)
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
    """Accuracies after the paper's epochs; the shallowest model is also read after twice as many."""
    depths, epochs = chosen["depths"], chosen["epochs"]
    cells: Cells = []
    trends: list[Json] = []
    curves: Json = {}
    memories = [results[f"memorized-{short_name(corpus)}"] for corpus in chosen["corpora"]]
    trained = [[results[f"trained-{short_name(c)}-depth{depth}"] for depth in depths] for c in chosen["corpora"]]
    at_end = [[until(one, epochs) for one in models] for models in trained]
    for corpus, models, ends, memory in zip(chosen["corpora"], trained, at_end, memories, strict=True):
        named = {f"trained, depth {depth}": one for depth, one in zip(depths, ends, strict=True)}
        named[f"trained, depth {depths[0]}, {2 * epochs} epochs"] = models[0]
        cells += [
            ([corpus, words], one | {"last": [curve[-1] for curve in one["accuracy"]]}) for words, one in named.items()
        ]
        built = {"last": memory["accuracy"], "parameters": memory["parameters"]}
        cells.append(([corpus, "constructed, ww.memorize"], built))
        quarter = len(ends[0]["epochs"]) // 4
        wrong = stack([wrong_labels(one, quarter) for one in ends])
        words = f"{corpus}: share of wrong labels after {ends[0]['epochs'][quarter]} epochs against depth"
        trends.append(fit_trend(words, depths, wrong, "falls"))
        curves[corpus] = {
            "epochs": ends[0]["epochs"],
            "accuracy": {str(depth): one["accuracy"] for depth, one in zip(depths, ends, strict=True)},
            "memorized": memory["accuracy"],
        }
    longest = [mean_of([curve[-1] for curve in models[0]["accuracy"]]) for models in trained]
    halfway = [mean_of([curve[-1] for curve in ends[0]["accuracy"]]) for ends in at_end]
    reached = [[find_epoch(0.98)(one) for one in models] for models in trained]
    sooner = [is_sooner([np.inf if epoch is None else epoch for epoch in one]) for one in reached]
    shown = "; ".join(
        f"{corpus}: {', '.join(str(epoch or 'never') for epoch in one)}"
        for corpus, one in zip(chosen["corpora"], reached, strict=True)
    )
    accuracies: Json = {"accuracy": _list(longest), "at": _list(halfway), "epochs": 2 * epochs, "half": epochs}
    accuracies["corpora"] = ", ".join(chosen["corpora"])
    constructed = {key: ", ".join(f"{one[key]}" for one in memories) for key in ("status", "conflicts", "parameters")}
    constructed["accuracy"] = _list([one["accuracy"] for one in memories])
    proven = all(one["status"] == "PROVEN" for one in memories)
    verdicts = [
        Verdict(
            "one-layer",
            yes_or_no(min(longest) >= 0.98, max(longest) >= 0.9),
            accuracies,
        ),
        Verdict("deeper", yes_or_no(all(sooner), any(sooner)), {"reached": shown}),
        Verdict("constructed", yes_or_no(proven), constructed, ours=True),
    ]
    return Summary(trends, cells, verdicts, curves)


def is_sooner(epochs: list[float]) -> bool:
    """Whether more depth never takes longer, and the most takes less than the least."""
    return all(a >= b for a, b in itertools.pairwise(epochs)) and epochs[0] > epochs[-1]


def _list(numbers: list[float]) -> str:
    return ", ".join(f"{number:.4f}" for number in numbers)


def until(result: Json, epochs: int) -> Json:
    """What had come out after so many epochs."""
    count = sum(epoch <= epochs for epoch in result["epochs"])
    return result | {"epochs": result["epochs"][:count], "accuracy": [one[:count] for one in result["accuracy"]]}


def short_name(corpus: str) -> str:
    """A corpus in the names of parts."""
    return Path(corpus).stem.replace(" ", "-")


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


def draw_corpus_panel(corpus: str, curves: Json) -> Curves:
    trained = {f"trained, depth {depth}": values for depth, values in curves["accuracy"].items()}
    levels = {"constructed (memorize)": curves["memorized"]}
    scales = ("linear", "linear")
    return Curves("epoch", curves["epochs"], trained, levels, {}, corpus, "training accuracy", scales, markers=False)


LR_E1 = Study(
    texts=TEXTS,
    paper={"accuracy": {"1 layer, 800 epochs": 0.9872}, "epochs": 400},
    settings={
        "sentences": Sized(64, 320, _PAPER_SENTENCES),
        "d": 64,
        "depths": [1, 3, 6],
        "rate": 1e-3,
        "batch": 32,
        "epochs": Sized(60, 100, 400),
        "seeds": Sized(1, 3, 3),
    },
    complete=describe_corpora,
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
        Variation("late", {"schedule": "late"}),
        Variation("slower", {"rate": 3e-4}),
        Variation("faster", {"rate": 3e-3}),
    ),
    compared=read_wrong,
    about="one-layer",
    supports=lambda wrong: wrong < 0.05,
    columns={
        "corpus": None,
        "model": None,
        "training accuracy": read.mean_and_spread("last"),
        "epochs to 0.98": find_epoch(0.98),
        "parameters": read.value("parameters"),
    },
    summarise=summarise,
    picture=lambda record: Picture([[draw_corpus_panel(*one) for one in record["curves"].items()]]),
)
