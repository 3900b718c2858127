"""LR-E1: rank-1 Transformers on labelled sentences. Attention is equation 20: value and key share v_1, head size 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.papers.experiments.training.batched_models import Group, TokenMap

#: The label of padding: it is in no loss and no accuracy.
PADDING = -1


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
