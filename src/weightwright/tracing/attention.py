"""Attention between tokens, as what it is: queries, keys, values and who sees whom, and not products of all pairs.

`scaled_dot_product_attention`, softmax(q @ k.mT) @ v written out, and `nn.MultiheadAttention`. A product of queries and
keys waits until it is known what becomes of it; where that is no attention, it is multiplied out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from weightwright.numbers import Bools
from weightwright.tracing.arithmetic import mul
from weightwright.tracing.contractions import linear, matmul, multiply_matrices
from weightwright.tracing.operands import operand
from weightwright.tracing.reductions import softmax
from weightwright.tracing.sheet import Codes, Sheet
from weightwright.tracing.symbolic import Traced, Unusable, operation
from weightwright.tracing.user_source import refuse

#: Finite scores from here on are masks: beside them a score is rounded by 1/16 or more, and nothing can be proven.
LOW = -(2.0**50)
#: Stands for codes that nobody has asked for yet.
_WAITING: Codes = np.zeros(0, dtype=np.int64)


class Scores(Traced):
    """q @ k.mT, (..., n, n), times a factor, of what is seen; also its softmax. Multiplied out only if it must be."""

    def __init__(self, q: Traced, k: Traced, seen: Bools | None = None, weights: bool = False) -> None:
        self.q, self.k, self.seen, self.weights, self.label = q, k, seen, weights, q.sheet.label
        self._known: Codes | None = None
        super().__init__(q.sheet, _WAITING, q.ndim - 2)

    @property
    def _codes(self) -> Codes:
        if self._known is None:
            if self.seen is not None:
                raise refuse("scores of attention are masked with -inf and used otherwise than in softmax(...) @ v")
            outer, self.sheet.label = self.sheet.label, self.label  # of the line that asked for the product
            made = multiply_matrices(self.q, self.k.mT)
            made = softmax(made, -1) if self.weights else made
            self.sheet.label = outer
            self._known, self.token_axis = made.codes, made.token_axis
        return self._known

    @_codes.setter
    def _codes(self, codes: Codes) -> None:
        self._known = None if codes is _WAITING else codes

    @property
    def shape(self) -> torch.Size:
        leading = np.broadcast_shapes(self.q.shape[:-2], self.k.shape[:-2])
        return torch.Size((*leading, self.q.shape[-2], self.k.shape[-2]))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def then(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Traced | None:
        """What an operation makes of the scores if they can go on waiting; None if not."""
        if name == "softmax" and not self.weights and args[0] is self:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            return Scores(self.q, self.k, self.seen, True) if dim in (-1, self.ndim - 1) else None
        if self.weights:
            other = args[1] if name == "matmul" and len(args) == 2 and args[0] is self else None
            return attend(self.q, self.k, other, self.seen) if isinstance(other, Traced) else None
        if name in ("mul", "rmul", "div") and len(args) == 2:
            other = args[1] if args[0] is self else args[0]
            number = _number(other)
            if number is None or (name == "div" and args[0] is not self):
                return None
            return Scores(mul(self.q, number if name != "div" else 1 / number), self.k, self.seen)
        _refuse_low(name, args, self)
        if name == "masked_fill" and args[0] is self and len(args) == 3 and _number(args[2]) == -math.inf:
            return self._masked(~torch.as_tensor(args[1]).numpy() if _is_mask(args[1]) else None)
        if name in ("add", "radd") and len(args) == 2:
            return self._masked(_seen_of(args[1] if args[0] is self else args[0]))
        return None

    def _masked(self, seen: Bools | None) -> Traced | None:
        if seen is None or seen.ndim != 2 or seen.shape != self.shape[-2:]:
            return None
        return Scores(self.q, self.k, seen if self.seen is None else seen & self.seen)


def attend(q: Traced, k: Traced, v: Traced, seen: Bools | None) -> Traced | None:
    """softmax(q @ k.mT) @ v over the tokens that are seen; None where the axes are not those of tokens."""
    if not (q.ndim == k.ndim == v.ndim and all(_of_tokens(x) for x in (q, k, v))):
        return None
    sheet, n = q.sheet, q.shape[-2]
    if seen is not None and not seen.any(axis=1).all():
        raise refuse("a token of an attention sees no token", "let every token see at least itself")
    shape = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v)))
    for called, x in (("query", q), ("key", k), ("value", v)):
        sheet.name(sheet.label, x.codes, x.token_axis, called)
    Q, K, V = (np.broadcast_to(x.codes, (*shape, *x.shape[-2:])) for x in (q, k, v))
    made = np.zeros((*shape, n, V.shape[-1]), dtype=np.int64)
    for place in np.ndindex(shape):
        columns = [sheet.settled(x[place], 0) for x in (Q, K, V)]
        made[place] = sheet.on_own_tokens(
            [sheet.columns.attention(columns[0], columns[1], value, seen, sheet.label) for value in columns[2]]
        )
    return Traced(sheet, made, len(shape))


def _of_tokens(x: Traced) -> bool:
    """Whether the rows are the tokens, all of them and in order, and there are several."""
    sheet: Sheet = x.sheet
    return x.ndim >= 2 and not sheet.free and sheet.n > 1 and x.token_axis == x.ndim - 2 and x.shape[-2] == sheet.n


def _number(value: Any) -> float | None:
    """A single number that does not depend on the input."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _refuse_low(name: str, args: Sequence[Any], scores: Scores) -> None:
    """UnsupportedOperation where scores are hidden by a finite number that no table holds beside them."""
    places = {"masked_fill": 2, "where": 1, "add": 1, "radd": 1}
    if name not in places or len(args) <= places[name] or not any(argument is scores for argument in args):
        return
    value = args[places[name]] if args[places[name]] is not scores else args[0]
    _refuse_low_number(value)


def _refuse_low_number(value: Any) -> None:
    if isinstance(value, Traced) or not isinstance(value, int | float | torch.Tensor):
        return
    numbers = torch.as_tensor(value, dtype=torch.float64).detach()
    low = numbers[(numbers <= LOW) & numbers.isfinite()]
    if len(low):
        raise refuse(
            f"scores of attention are masked with {float(low.min()):.4g}", "mask with -torch.inf, which hides a token"
        )


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.bool


def _seen_of(mask: Any) -> Bools | None:
    """What a mask of 0 and -inf that is added to scores lets be seen."""
    if isinstance(mask, Traced) or not isinstance(mask, torch.Tensor) or not mask.is_floating_point():
        return None
    numbers = mask.detach().double().numpy()
    return numbers == 0 if bool(((numbers == 0) | (numbers == -np.inf)).all()) else None


@operation("matmul", "mm", "bmm", "mv", "dot")
def multiply(input: Any, other: Any) -> Traced:
    """Of queries and keys: what waits for softmax and values."""
    a, b = operand(input), operand(other)
    if isinstance(a, Traced) and isinstance(b, Traced) and a.ndim == b.ndim >= 2 and a.shape[-1] == b.shape[-2]:
        k = b.mT
        if _of_tokens(a) and _of_tokens(k):
            return Scores(a, k)
    return multiply_matrices(a, b)


@operation("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Traced:
    if dropout_p or enable_gqa:
        raise refuse("attention with dropout_p or enable_gqa cannot be traced", "leave these out")
    q, k, v = operand(query), operand(key), operand(value)
    q = mul(q, q.shape[-1] ** -0.5 if scale is None else scale)
    seen = _visible(attn_mask, is_causal, q.shape[-2], k.shape[-2])
    _refuse_low_number(attn_mask)
    plain = attn_mask is None or seen is not None or _is_mask(attn_mask)
    if plain and isinstance(q, Traced) and isinstance(k, Traced) and isinstance(v, Traced):
        found = attend(q, k, v, seen)
        if found is not None:
            return found
    if seen is not None:
        raise refuse("masked attention of other rows than the tokens cannot be traced", "attend from tokens to tokens")
    scores = multiply_matrices(q, k.mT)
    return matmul(softmax(scores if attn_mask is None else scores + attn_mask, -1), v)


def _visible(mask: Any, is_causal: bool, rows: int, columns: int) -> Bools | None:
    """Who sees whom, where truth values or -inf say it; None where nothing is hidden, or scores are added to."""
    seen = np.tri(rows, columns, dtype=bool) if is_causal else None
    if mask is not None:
        shown = mask.numpy() if _is_mask(mask) else _seen_of(mask)
        if shown is None or shown.ndim < 2:
            return seen
        if shown.ndim > 2 and bool((shown == shown.reshape(-1, *shown.shape[-2:])[0]).all()):
            shown = shown.reshape(-1, *shown.shape[-2:])[0]
        if shown.ndim != 2:
            raise refuse("a mask of attention that differs from head to head cannot be traced", "use one mask for all")
        shown = np.broadcast_to(shown, (rows, columns))
        seen = shown if seen is None else shown & seen
    return None if seen is None or bool(seen.all()) else seen


@operation("multi_head_attention_forward")
def multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Traced, Unusable | None]:  # fmt: skip
    """As `nn.MultiheadAttention` calls it, with (tokens, features) or (tokens, 1, features)."""
    if any(x is not None for x in (bias_k, bias_v, static_k, static_v)) or add_zero_attn or (dropout_p and training):
        raise refuse("MultiheadAttention with bias_k, add_zero_attn or dropout cannot be traced", "leave these out")
    if query.ndim == 3 and query.shape[1] != 1:
        raise refuse("MultiheadAttention of a batch of sequences cannot be traced", "compile it for one sequence")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        weights = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    heads = []
    for x, W, b in zip((query, key, value), weights, biases, strict=True):
        flat = x.squeeze(1) if x.ndim == 3 else x
        made = linear(flat, W, b)
        heads.append(made.reshape(made.shape[0], num_heads, -1).transpose(0, 1))  # (heads, tokens, size)
    mask = _with_padding(attn_mask, key_padding_mask)
    q, k, v = heads
    mixed = attention(q, k, v, attn_mask=mask, is_causal=is_causal and mask is None)
    out = linear(mixed.transpose(0, 1).reshape(mixed.shape[1], -1), out_proj_weight, out_proj_bias)
    unknown = Unusable("the weights of an attention were asked for", "call it with need_weights=False")
    return (out.unsqueeze(1) if query.ndim == 3 else out), unknown if need_weights else None


def _with_padding(attn_mask: Any, key_padding_mask: Any) -> Any:
    """Truth values, True where a key is seen; torch's module says True where it is not."""
    masks = [mask for mask in (attn_mask, key_padding_mask) if mask is not None]
    seen = None
    for mask in masks:
        shown = (~mask).numpy() if _is_mask(mask) else _seen_of(mask)
        if shown is None:
            raise refuse("a mask that adds to scores cannot be traced here", "use truth values, or 0 and -inf")
        own = torch.as_tensor(shown.reshape(1, -1) if shown.ndim == 1 or len(shown) == 1 else shown)
        seen = own if seen is None else seen & own
    return seen
