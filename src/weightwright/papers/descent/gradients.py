"""AE-1, AE-2: one head computes f(w . x_i - y_i) x_i for every sample of the prompt at once.

With f = l' these are the gradients of a differentiable loss, sample by sample. Spectral: few keys at moderate beta with
fitted values; some f (tanh, sigmoid) take two keys and are exact.
Statement, source and deviations: `weightwright theorems AE-1`, `AE-2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.errors import FormulaError, ToleranceError
from weightwright.expressions import Expression, differentiate, fold, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.incontext.networks.descent_network import Ranges, gradients_network
from weightwright.incontext.networks.slopes import Slope, beyond, faithful_slope, spectral_slope
from weightwright.papers.descent.probes import aimed, along, gradients_at
from weightwright.papers.kit.arguments import known_method, one_given, positive, whole
from weightwright.papers.kit.constructed import Method, described, proven_bound, within
from weightwright.runtime import AttentionNetwork

#: A function of the residual w . x - y.
RESIDUAL = (1.0, -1.0)
#: Unless other ranges are given.
UNIT = Ranges(1.0, 1.0, 1.0, 1.0)
#: The share of the tolerance that goes to the spacing of the anchors; the rest is for leakage and rounding.
SPACING = 1 - 2.0**-8
#: The most anchors of a sample that are tried for a tolerance.
MOST = 2**16
#: Boxes on which the slope of f is enclosed.
_BOXES = 1024


def in_context_gradients(
    f: str,
    n: int,
    d: int,
    *,
    ranges: Ranges | None = None,
    reach: float | None = None,
    tol: float | None = None,
    P: int | None = None,
    beta: float | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 2d + 1), tokens (x_i, y_i, w) -> (n, d): f(w . x_i - y_i) x_i. f is a formula in x, the residual.

    ranges: how large the entries of x, y and w may be (default 1 each).
    reach: how large |w . x_i - y_i| may be; by default all that the ranges allow, d |x| |w| + |y|.

    Prompts beyond either are refused when the network runs.
    Faithful: give tol, or P (P + 1 anchors from -reach to reach) and perhaps beta. Spectral: give tol.
    Hypotheses, checked: f has a finite slope on [-reach, reach].
    Error: `net.certificate.bound` for every token: spacing, leakage and rounding.
    Cost: 3 layers, 1 head (spectral: one for each table), n (P + 1) scores.

    >>> net = in_context_gradients("sin(x)", n=4, d=2, P=32)
    >>> net.certificate.status, net.certificate.bound < 2 * 3 / 32 + 1e-3
    ('PROVEN', True)
    """
    return _network(_Asked("AE-1", _formula(f), n, d, ranges or UNIT, reach, tol, P, beta, method, dtype))


def per_sample_gradients(
    loss: str,
    n: int,
    d: int,
    *,
    ranges: Ranges | None = None,
    reach: float | None = None,
    tol: float | None = None,
    P: int | None = None,
    beta: float | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """AE-2: l'(w . x_i - y_i) x_i for a loss given as a formula in the residual x; otherwise `in_context_gradients`.

    >>> net = per_sample_gradients("log(cosh(x))", n=2, d=1, tol=1e-6, method="spectral")
    >>> net.certificate.status, net.certificate.bound <= 1e-6
    ('PROVEN', True)
    """
    slope = differentiate(parse(_formula(loss), ("x",)))
    if _jumps(slope):
        raise FormulaError(
            f"loss={loss!r}: its derivative is written with jumps, {to_text(slope)}; where it is continuous all the"
            " same, pass it to in_context_gradients, for instance f='clip(x, -1, 1)' for Huber's loss"
        )
    return _network(_Asked("AE-2", to_text(slope), n, d, ranges or UNIT, reach, tol, P, beta, method, dtype))


@dataclass(frozen=True)
class _Asked:
    """What the two constructions are asked for; f is a formula of the residual."""

    id: str
    f: str
    n: int
    d: int
    ranges: Ranges
    reach: float | None
    tol: float | None
    P: int | None
    beta: float | None
    method: Method
    dtype: str

    @property
    def size(self) -> float:
        """How large the residual may be."""
        full = self.d * self.ranges.x * self.ranges.w + self.ranges.y
        return full if self.reach is None else min(float(self.reach), full)

    def network(self, slope: Slope) -> AttentionNetwork:
        return gradients_network(slope, self.n, self.d, self.ranges, self.dtype)


def _network(asked: _Asked) -> AttentionNetwork:
    ranges = asked.ranges
    whole("n", asked.n, 1)
    whole("d", asked.d, 1)
    for name in ("reach", "tol", "beta"):
        positive(name, getattr(asked, name))
    for name in ("x", "w"):
        positive(f"ranges.{name}", getattr(ranges, name))
    whole("P", asked.P, 2, " spacings")
    size = asked.size
    if asked.method == "spectral":
        if asked.P is not None or asked.beta is not None or asked.tol is None:
            raise ValueError("P and beta follow from the fit for method='spectral'; give tol")
        slope = spectral_slope(asked.f, RESIDUAL, beyond(size), asked.tol / ranges.x / 2, asked.dtype, most=512)
        net, chosen, places = asked.network(slope), {"keys": float(slope.anchors)}, np.linspace(-size, size, 65)
    else:
        known_method(asked.method)
        net, chosen = _faithful(asked)
        places = np.linspace(-size, size, 2 * int(chosen["P"]) + 1)  # the anchors, and half way between them
    within(net, asked.tol)
    inputs = net.network.inputs
    reference = gradients_at(along(asked.f, RESIDUAL), inputs, size)
    probes = aimed(inputs, asked.n, ranges, places, size)
    return described(net, asked.id, asked.method, {**chosen, "reach": size}, {}, reference, probes)


def _faithful(asked: _Asked) -> tuple[AttentionNetwork, dict[str, float]]:
    """With P anchors, or with as many as the tolerance takes: what can be shown may need a few more than expected."""
    tol, P, beta, reach = asked.tol, asked.P, asked.beta, asked.size
    one_given("tol or P (and perhaps beta)", tol, P)
    if tol is not None and beta is not None:
        raise ValueError("beta follows from tol; give P and beta, or tol alone")
    count = P if P is not None else _anchors_for(asked.f, reach, float(tol or 0) / asked.ranges.x)
    while True:
        sharp = inverse_temperature(reach, count) if beta is None else float(beta)
        net = asked.network(faithful_slope(asked.f, RESIDUAL, reach, count, sharp, asked.dtype))
        bound = proven_bound(net)
        if tol is None or bound <= tol:
            return net, {"P": float(count), "beta": sharp}
        more = math.ceil(count * min(max(bound / tol, 1.05), 4.0))
        if more > MOST:
            raise ToleranceError(
                f"tol={tol:g} cannot be proven with P = {count} anchors: {bound:.3g} is the best", bound
            )
        count = more


def inverse_temperature(reach: float, P: int) -> float:
    """ln(2^13 P) / dL^2: at an anchor its neighbours score beta dL^2 less, and all others weigh a 2^13th of 1/P."""
    return math.log(2.0**13 * P) / (2 * reach / P) ** 2


def _anchors_for(f: str, reach: float, tol: float) -> int:
    """dL max |f'| <= tol."""
    edges = np.linspace(-reach, reach, _BOXES + 1)
    steepest = float(np.max(jet(parse(f, ("x",)), Interval(edges[:-1], edges[1:]), 1)[1].magnitude()))
    if not math.isfinite(steepest):
        raise FormulaError(f"f={f!r} has no finite slope on [{-reach:g}, {reach:g}]: give a smaller reach, or P")
    count = max(2, math.ceil(2 * reach * steepest / (tol * SPACING)))
    if count > MOST:
        raise ToleranceError(f"tol={tol:g} takes {count:,} anchors for every sample, at most {MOST:,} are tried", tol)
    return count


def _formula(f: str) -> str:
    return to_text(read_formula(f))


def _jumps(expression: Expression) -> bool:
    return bool(fold(expression, lambda leaf: False, lambda op, args: op in ("step", "sign") or any(args)))
