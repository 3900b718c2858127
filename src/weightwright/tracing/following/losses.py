"""Torch's losses, as the formulas that they stand for."""

from __future__ import annotations

from typing import Any

from weightwright.tracing.arithmetic import add, formula, mul, sub
from weightwright.tracing.symbolic import Traced, called, operation
from weightwright.tracing.user_source import refuse


def _over_examples(losses: Traced, reduction: str, weight: Any = None) -> Traced:
    weighted = losses if weight is None else mul(losses, weight)
    if reduction == "none":
        return weighted
    if reduction not in ("mean", "sum"):
        raise refuse(f"a loss with reduction={reduction!r} cannot be traced", "use 'mean', 'sum' or 'none'")
    found: Traced = called(reduction, (weighted,))
    return found


@operation("mse_loss")
def mse_loss(
    input: Any, target: Any, size_average: None = None, reduce: None = None, reduction: str = "mean", weight: Any = None
) -> Traced:
    return _over_examples(formula("x**2", sub(input, target)), reduction, weight)


@operation("l1_loss")
def l1_loss(
    input: Any, target: Any, size_average: None = None, reduce: None = None, reduction: str = "mean", weight: Any = None
) -> Traced:
    return _over_examples(formula("abs(x)", sub(input, target)), reduction, weight)


@operation("huber_loss")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Traced:
    """x^2 / 2 between -delta and delta, a line beyond; written so that its derivative bends and does not jump."""
    d = repr(float(delta))
    bent = f"x**2/2 - relu(x - {d})**2/2 - relu(-x - {d})**2/2"
    return _over_examples(formula(bent, sub(input, target)), reduction, weight)


@operation("smooth_l1_loss")
def smooth_l1_loss(
    input: Any, target: Any, size_average: None = None, reduce: None = None, reduction: str = "mean", beta: float = 1.0
) -> Traced:
    """Huber's loss divided by beta."""
    if not beta > 0:
        return l1_loss(input, target, reduction=reduction)
    return mul(huber_loss(input, target, reduction, beta), 1.0 / beta)


@operation("binary_cross_entropy_with_logits")
def cross_entropy_of_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: None = None,
    reduce: None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Traced:
    """log(1 + e^x) - y x; with a weight p of the positives y p log(1 + e^-x) + (1 - y) log(1 + e^x)."""
    if pos_weight is None:
        losses = sub(formula("softplus(x)", input), mul(input, target))
    else:
        positive = mul(mul(target, pos_weight), formula("softplus(-x)", input))
        losses = add(positive, mul(1.0 - target, formula("softplus(x)", input)))
    return _over_examples(losses, reduction, weight)


@operation("soft_margin_loss")
def soft_margin_loss(
    input: Any, target: Any, size_average: None = None, reduce: None = None, reduction: str = "mean"
) -> Traced:
    """log(1 + e^(-y x))."""
    return _over_examples(formula("softplus(-x)", mul(input, target)), reduction)
