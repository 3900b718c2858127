"""A modern Hopfield memory: patterns are stored as they are, and one softmax head over them retrieves.

Source: in-context algorithm emulation paper, Definition E.1, with W_Q and W_K the identity: the stored patterns are the
keys K (rows here, columns in the paper), the values V are the patterns or whatever is stored with them. One update is
xi <- softmax(beta xi K^T) K, and the last of several reads V in place of K. The energy is that of Ramsauer et al.,
"Hopfield Networks is All You Need"; no update raises it.

A Hopfield memory as a network: queries are data tokens, patterns are registers.

The stream: query (dim), pattern (dim) and value on registers, the result, and data, 1 on data tokens.

A Hopfield memory as torch's own attention: torch.nn.MultiheadAttention with fixed weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weightwright.errors import WeightwrightError
from weightwright.heads.registers import HIDDEN
from weightwright.memory.recall import Recall, Stored, recall_bound
from weightwright.network import Attention, Head, Loop, Network, Sees, selection, token_wise
from weightwright.network.layers import Layer, Names
from weightwright.numbers import Floats, counted
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.weights import DTYPES, dtype_name


def hopfield_network(patterns: Floats, values: Floats | None, beta: float, steps: int, dtype: str) -> Network:
    """steps - 1 updates of the query in one loop, then the values are read. values: None for the patterns.

    With one step the network is native: a plain Transformer sees the data tokens too, whose score lies HIDDEN below
    every pattern's for queries that are no longer than the longest pattern.
    """
    N, d = patterns.shape
    m = d if values is None else values.shape[1]
    query, stored, out = (_numbered(word, count) for word, count in (("query", d), ("pattern", d), ("out", m)))
    kept = () if values is None else _numbered("value", m)
    names = (*query, *stored, *kept, *out, "data")
    registers = np.zeros((N, len(names)))
    registers[:, d : 2 * d] = patterns
    if values is not None:
        registers[:, 2 * d : 2 * d + m] = values
    layers: list[Layer] = []
    if steps > 1:
        update = _head("the patterns' mean, weighted by likeness", names, patterns, beta, d, d, 0)
        layers.append(Loop((Attention(names, (update,), residual=False),), steps - 1))
    source = d if values is None else 2 * d
    layers.append(Attention(names, (_head("read", names, patterns, beta, source, m, len(names) - 1 - m),)))
    return Network(
        inputs=query,
        embed=token_wise(query, names, {(name, name): 1.0 for name in query}, {"data": 1.0}),
        registers=registers,
        layers=tuple(layers),
        read=selection(names, out),
        dtype=dtype,
    )


def _head(role: str, names: Names, patterns: Floats, beta: float, source: int, size: int, target: int) -> Head:
    """Reads `size` coordinates of the registers from `source` on, and writes them from `target` on."""
    (N, d), D = patterns.shape, len(names)
    W_Q, W_K, W_V, W_O = np.zeros((D, d + 1)), np.zeros((D, d + 1)), np.zeros((D, size)), np.zeros((size, D))
    W_Q[:d, :d], W_K[d : 2 * d, :d] = np.eye(d), np.eye(d)
    longest = float((patterns**2).sum(axis=1).max())
    W_Q[-1, d], W_K[-1, d] = 1.0, -math.ldexp(1.0, math.ceil(math.log2(-HIDDEN / beta + longest)))
    W_V[source : source + size], W_O[:, target : target + size] = np.eye(size), np.eye(size)
    return Head(role, W_Q, W_K, W_V, W_O, beta, Sees((0, N), "none"))


def _numbered(word: str, count: int) -> Names:
    return tuple(f"{word}[{i}]" for i in range(count))


class HopfieldAttention(nn.Module):
    """query (..., n, dim) -> (..., n, size of a value), one update: `attention` holds the weights, `keys` and `values`
    are what it attends to.

    torch divides scores by sqrt(E), E the size of an embedding: the map of the queries is beta sqrt(E) times the
    identity, all others are the identity. Where patterns and values differ in size the shorter are filled up with 0.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, patterns: Tensor, values: Tensor, beta: float) -> None:
        super().__init__()
        self.dim, self.size = patterns.shape[1], values.shape[1]
        E = max(self.dim, self.size)
        self.register_buffer("keys", pad(patterns, (0, E - self.dim)))
        self.register_buffer("values", pad(values, (0, E - self.size)))
        made = nn.MultiheadAttention(E, 1, bias=False, batch_first=True, dtype=patterns.dtype, device=patterns.device)
        identity = torch.eye(E, dtype=patterns.dtype, device=patterns.device)
        with torch.no_grad():
            made.in_proj_weight.copy_(torch.cat([beta * math.sqrt(E) * identity, identity, identity]))
            made.out_proj.weight.copy_(identity)
        self.attention = made.requires_grad_(False)

    def forward(self, query: Tensor) -> Tensor:
        if query.ndim < 2 or query.shape[-1] != self.dim:
            raise ValueError(f"query must have shape (..., n, {self.dim}), not {tuple(query.shape)}")
        rows = pad(query, (0, self.keys.shape[1] - self.dim)).reshape(-1, self.keys.shape[1])
        mixed, _ = self.attention(rows, self.keys, self.values, need_weights=False)
        return mixed[:, : self.size].reshape(*query.shape[:-1], self.size)


_NAMES = {torch.float64: "float64", torch.float32: "float32"}


class Hopfield:
    """Patterns of `dim` numbers; `store` them, `retrieve` from a query.

    beta: how sharply the nearest pattern is picked; 1/sqrt(dim) is what attention usually has. It is rounded to the
    dtype, as the patterns are: what is said about the memory is said about the rounded numbers.

    >>> memory = Hopfield(2, beta=8.0).store([[1.0, 0.0], [0.0, 1.0]])
    >>> memory.retrieve(torch.tensor([0.9, 0.2], dtype=torch.float64)).round(decimals=2).tolist()
    [1.0, 0.0]
    >>> memory.recall_bound(radius=0.25).bound < 0.03
    True
    """

    def __init__(self, dim: int, beta: float = 1.0, dtype: torch.dtype | str = torch.float64) -> None:
        self.dim = _whole("dim", dim)
        self.dtype = DTYPES[dtype_name(dtype, tuple(_NAMES.values()))]
        number = isinstance(beta, int | float) and not isinstance(beta, bool)
        self.beta = float(torch.tensor(beta, dtype=self.dtype)) if number else math.nan
        if not (math.isfinite(self.beta) and self.beta > 0):
            raise ValueError(f"beta must be a positive finite number of {dtype}, not {beta!r}")
        self._patterns = torch.zeros(0, self.dim, dtype=self.dtype)
        self._values: Tensor | None = None

    def __repr__(self) -> str:
        size = f"{counted(len(self), 'pattern')} of {counted(self.dim, 'number')}"
        return f"Hopfield({size}, beta {self.beta:g}, {_NAMES[self.dtype]})"

    def __len__(self) -> int:
        return len(self._patterns)

    @property
    def patterns(self) -> Tensor:
        """(N, dim): the keys."""
        return self._patterns

    @property
    def values(self) -> Tensor:
        """(N, size of a value): what is read; the patterns themselves where no values were stored."""
        return self._patterns if self._values is None else self._values

    def store(self, patterns: Any, values: Any = None) -> Hopfield:
        """Add patterns (N, dim), and values (N, any size) for all of them or for none. Returns the memory itself."""
        new = self._numbers("patterns", patterns)
        if new.ndim != 2 or new.shape[1] != self.dim or not len(new):
            raise ValueError(f"patterns must have shape (N, {self.dim}) with N at least 1, not {tuple(new.shape)}")
        if len(self) and new.device != self._patterns.device:
            raise ValueError(f"patterns are on {new.device}, those stored before on {self._patterns.device}")
        own = None if values is None else self._fitting_values(values, new)
        if len(self):
            if (own is None) != (self._values is None):
                before = "without values" if self._values is None else "with values"
                raise ValueError(f"values: patterns were stored {before} before; store all with values or all without")
            new = torch.cat([self._patterns, new])
            own = None if own is None else torch.cat([self.values, own])
        self._patterns, self._values = new.detach().clone(), None if own is None else own.detach().clone()
        return self

    def retrieve(self, query: Any, steps: int = 1) -> Tensor:
        """(..., dim) -> (..., size of a value): after steps - 1 updates, softmax(beta xi K^T) V."""
        self._not_empty("retrieve")
        _whole("steps", steps)
        xi = self._query(query)
        for _ in range(steps - 1):
            xi = self._weights(xi) @ self._patterns
        return self._weights(xi) @ self.values

    def energy(self, query: Any) -> Tensor:
        """(..., dim) -> (...), never negative: -log sum exp(beta xi K^T) / beta + |xi|^2 / 2 + (log N) / beta
        + max |x_i|^2 / 2."""
        self._not_empty("energy")
        xi, K = self._query(query), self._patterns
        attraction = torch.logsumexp(self.beta * (xi @ K.T), -1) / self.beta
        farthest = (K**2).sum(-1).max() / 2
        return -attraction + (xi**2).sum(-1) / 2 + math.log(len(K)) / self.beta + farthest

    def separation(self) -> float:
        """The least over i of x_i . x_i - max over j != i of x_i . x_j, in plain floats; infinite for one pattern."""
        self._not_empty("separation")
        products = self._patterns @ self._patterns.T
        others = products.clone().fill_diagonal_(-torch.inf)
        return float((products.diagonal() - others.amax(dim=1)).min())

    def recall_bound(self, radius: float = 0.0, steps: int = 1, pattern: int | None = None) -> Recall:
        """How far `retrieve(query, steps)` can be from the value of pattern i, in the Euclidean norm, for every query
        within `radius` of pattern i: proven in ball arithmetic from the stored numbers, rounding included.

        pattern: i; None for the worst of all, which takes about N^2 / 10^5 seconds a step. Two equal patterns are never
        told apart: then the bound is as large as the distance of the values.
        """
        self._not_empty("recall_bound")
        if not (isinstance(radius, int | float) and math.isfinite(radius) and radius >= 0):
            raise ValueError(f"radius must be a finite number of at least 0, not {radius!r}")
        _whole("steps", steps)
        if pattern is not None and not (isinstance(pattern, int) and 0 <= pattern < len(self)):
            raise ValueError(f"pattern must be None or the number of one of {len(self)} patterns, not {pattern!r}")
        stored = Stored(_floats(self._patterns), self._own_values(), self.beta, _NAMES[self.dtype])
        return recall_bound(stored, float(radius), steps, pattern)

    def network(self, steps: int = 1) -> AttentionNetwork:
        """The same as a network: queries are the tokens, patterns stand on registers, updates are one loop.

        It has no certificate: its inputs have no bounds. With one step it loads into a plain Transformer.
        """
        self._not_empty("network")
        _whole("steps", steps)
        built = hopfield_network(_floats(self._patterns), self._own_values(), self.beta, steps, _NAMES[self.dtype])
        return AttentionNetwork(built)

    def to_torch_attention(self) -> HopfieldAttention:
        """One step as torch.nn.MultiheadAttention with fixed weights and the patterns as keys."""
        self._not_empty("to_torch_attention")
        return HopfieldAttention(self._patterns, self.values, self.beta)

    def _own_values(self) -> Floats | None:
        return None if self._values is None else _floats(self._values)

    def _weights(self, xi: Tensor) -> Tensor:
        return torch.softmax((self.beta * xi) @ self._patterns.T, -1)  # (..., N)

    def _query(self, query: Any) -> Tensor:
        xi = self._numbers("query", query)
        if xi.ndim < 1 or xi.shape[-1] != self.dim:
            raise ValueError(f"query must have shape (..., {self.dim}), not {tuple(xi.shape)}")
        if xi.device != self._patterns.device:
            raise ValueError(f"query is on {xi.device}, the patterns on {self._patterns.device}; move one of them")
        return xi

    def _fitting_values(self, values: Any, patterns: Tensor) -> Tensor:
        own = self._numbers("values", values)
        if own.ndim != 2 or len(own) != len(patterns) or not own.shape[1]:
            raise ValueError(
                f"values must have shape ({len(patterns)}, any size), a row for each pattern, not {tuple(own.shape)}"
            )
        if self._values is not None and own.shape[1] != self._values.shape[1]:
            raise ValueError(f"values have {own.shape[1]} numbers each, those stored before {self._values.shape[1]}")
        if own.device != patterns.device:
            raise ValueError(f"values are on {own.device}, the patterns on {patterns.device}; move one of them")
        return own

    def _numbers(self, name: str, given: Any) -> Tensor:
        """A tensor of the memory's dtype with finite entries. Lists are rounded; tensors and arrays are not."""
        if isinstance(given, np.ndarray | Tensor):
            tensor = torch.as_tensor(given)
            if (
                tensor.is_complex()
                or tensor.dtype == torch.bool
                or torch.promote_types(tensor.dtype, self.dtype) != self.dtype
            ):
                raise TypeError(f"{name} is {tensor.dtype}, which {self.dtype} does not hold exactly; cast it yourself")
        else:
            try:
                tensor = torch.tensor(given, dtype=self.dtype)
            except (TypeError, ValueError, RuntimeError) as error:
                raise TypeError(f"{name} must be a tensor, an array or nested lists of numbers: {error}") from error
        tensor = tensor.to(self.dtype)
        if not tensor.isfinite().all():
            index = tuple((~tensor.isfinite()).nonzero()[0].tolist())
            raise ValueError(f"{name} must be finite, but entry {index} is {float(tensor[index])!r}")
        return tensor

    def _not_empty(self, asked: str) -> None:
        if not len(self):
            raise WeightwrightError(f"{asked}: nothing is stored yet; call store(patterns) first")


def _whole(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def _floats(tensor: Tensor) -> Floats:
    array: Floats = tensor.double().cpu().numpy()
    return array
