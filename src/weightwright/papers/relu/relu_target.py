"""One hidden layer of ReLUs for given functions of N numbers: the target that UA-8 emulates by attention.

The proof of UA-8 takes it from Pinkus 1999, who shows that there is one. Three ways: exactly, where the functions are
piecewise linear (`piecewise_linear`); along waves, where they are smooth (`plane_waves`); or as the user trained it
(`from_module`, where the network itself is the target).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, nextafter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from weightwright.approximation.formula_of_torch import trace
from weightwright.box import Box
from weightwright.claims.certificate import round_up
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import BudgetError, DomainError, FormulaError, ToleranceError, UnsupportedOperation
from weightwright.expressions import Expression, parse, to_text
from weightwright.expressions.mistakes import read_formula
from weightwright.heads.mix import finite_matrix
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import FormulasClaim, RidgeFunctions
from weightwright.papers.kit.exact_arrays import Exact, fractions
from weightwright.papers.prover.waves import SLACK, Waves, WavesProof, prove_waves
from weightwright.papers.relu.plane_waves import Bent, Fitter, Profile, WaveFit, bend, total_error
from weightwright.papers.relu.relu_kinks import Layer, layer

Formula = str | Callable[..., Any]
MAX_VARIABLES, MAX_UNITS = 4, 2000
#: Boxes that the prover looks at; the part of the tolerance that is left to what it cannot see, by the variables.
_BOXES, _SHARE = {1: 2048, 2: 2048, 3: 1024, 4: 1024}, {1: 0.02, 2: 0.04, 3: 0.1, 4: 0.22}


def piecewise_linear(
    formulas: Sequence[Formula], N: int, domain: Box | None = None
) -> tuple[RidgeFunctions, FormulasClaim]:
    """The ReLU network that equals piecewise-linear formulas of x0, ..., x(N-1) for all real x.

    Statement: sums and multiples of affine functions, and max, min, abs, relu, clip of them, are affine . (x, 1) plus a
    sum of c_k relu(a_k . (x, 1)). Equal a_k are joined, also between outputs: sorting two numbers takes one unit.
    Hypotheses, checked: one level of kinks, or kinks of kinks along one direction (a hat relu(1 - abs(x0))); else
    FormulaError names the operation. Every coefficient is a float64; else FormulaError, or with a domain the float
    nearest to it.
    Shapes: N inputs, len(formulas) outputs, K units; arguments (K, N + K), zero beyond column N.
    Error: 0; with a domain, what rounded coefficients can come to on it.
    Cost: K = the number of different kinks.

    >>> ridge, claim = piecewise_linear(["min(x0, x1)", "max(x0, x1)"], 2)
    >>> ridge.arguments.tolist(), ridge.outputs.tolist(), claim.error
    ([[1.0, -1.0, 0.0]], [[1.0, 0.0, -1.0], [0.0, 1.0, 1.0]], 0.0)
    """
    names, expressions = _read(formulas, N)
    if domain is not None and domain.lo.shape != (N,):
        raise DomainError(f"domain: a box of {N} intervals was expected, not one of shape {domain.lo.shape}")
    layers = [layer(expression, names) for expression in expressions]
    kinks = [_in_floats(a) for a in dict.fromkeys(a for one in layers for a in one.units)]
    rows = fractions([row for _, row in kinks]).reshape(len(kinks), N + 1)
    exact = fractions([_output(one, kinks) for one in layers])  # (outputs, N + K + 1)
    outputs = np.array([[_rounded(x, domain) for x in row] for row in exact.tolist()])
    error = Fraction(0)
    if domain is not None:
        reach = np.append(_reach(np.concatenate([fractions(np.eye(N, N + 1)), rows]), domain), fractions([1]))
        error = max(np.abs(exact - fractions(outputs)) @ reach)
    ridge = relu_ridge(rows[:, :N], rows[:, N], outputs[:, :-1], outputs[:, -1])
    texts = tuple(to_text(expression) for expression in expressions)
    return ridge, FormulasClaim(texts, "exact", np.zeros((0, 2, N)), _up(error))


def plane_waves(
    formulas: Sequence[Formula], lo: Floats, hi: Floats, tol: float, max_units: int = MAX_UNITS
) -> tuple[RidgeFunctions, FormulasClaim]:
    """A ReLU network within tol of smooth formulas of x0, ..., x(N-1) for all x from lo to hi, N <= 4.

    Statement: |ridge_m(x) - formula_m(x)| <= claim.error <= tol for every output m and every real x of the box.
    Construction: polynomials of t_w = v_w . x + s_w along few directions, fitted so that they bend little
    (`plane_waves`); each is replaced by a piecewise-linear function of t_w, whose kinks are the units. Outputs share
    directions and kinks.
    Hypotheses, checked: N <= 4 (else BudgetError); finite values (FormulaError); smooth enough that boxes of Taylor
    models prove the fit (ToleranceError with the best bound, or None if there is none).
    Shapes: lo, hi (N,); arguments (K, N + K), zero beyond column N; waves (W, N + 1).
    Error: |formula - polynomials|, proven on boxes, plus for each wave |polynomial - lines|.
    Cost: K units, as tol^(-1/2); BudgetError with the estimate, before the proof, if more than max_units.

    >>> ridge, claim = plane_waves(["x0*x1"], np.array([-1.0, -1.0]), np.array([1.0, 1.0]), 1e-2)
    >>> len(ridge.profiles) <= 20, len(claim.waves), claim.error <= 1e-2
    (True, 2, True)
    """
    box = Box(lo, hi)
    N = box.lo.size
    if box.lo.ndim != 1:
        raise DomainError(f"domain: one interval for each of the variables x0, x1, ..., not shape {box.lo.shape}")
    if not isfinite(tol) or tol <= 0:
        raise ValueError(f"tol must be a positive number, not {tol!r}")
    names, expressions = _read(formulas, N)
    if N > MAX_VARIABLES:
        raise BudgetError(
            f"{N} variables: the boxes of a proof grow like powers ({4**N} of them and more), and at most"
            f" {MAX_VARIABLES} variables are taken; train a ReLU network and give it as a module instead"
        )
    asked, fitter, share = _WaveRequest(expressions, box, tol, max_units), Fitter(N), _SHARE[N] * tol
    y, held_out = (_values(expressions, names, box, z) for z in (fitter.z, fitter.held_out))
    fit, closest = fitter.best(y, held_out, 0.98 * tol - share, max_units)
    units = fit.units(0.98 * tol - share - fit.error)
    if max_units < units < inf:
        raise BudgetError(f"{asked.where}: tol={tol:g} takes about {units:.0f} ReLUs, max_units={max_units}")
    if units < inf:
        waves, proof = asked.prove(fit, tol, 1.05 * fit.error + share, _BOXES[N])
        if proof.complete:
            built = asked.build(waves, proof, tol / SLACK**2 - proof.bound)
            if built is None:
                raise BudgetError(f"{asked.where}: tol={tol:g} takes more than max_units={max_units} ReLUs")
            return built
    raise asked.refuse(closest, float(np.ptp(held_out, axis=0).max()))


def from_module(module: nn.Module, N: int | None = None) -> RidgeFunctions:
    """The ReLU network that a torch module is: nn.Sequential(Linear(N, K), ReLU(), Linear(K, M)), taken exactly.

    Nothing is claimed beside: the network itself is the target. float32 and float64 weights, with or without bias.
    N: the number of inputs that it must have; None for as many as it has.

    >>> ridge = from_module(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)), 6)
    >>> ridge.arguments.shape, ridge.outputs.shape
    ((4, 10), (2, 10))
    """
    parts = list(module) if type(module) is nn.Sequential else []
    if [type(part) for part in parts] != [nn.Linear, nn.ReLU, nn.Linear]:
        raise UnsupportedOperation(
            "a target network is torch.nn.Sequential(Linear, ReLU, Linear), not"
            f" {type(module).__name__}({', '.join(type(part).__name__ for part in parts)})"
        )
    for part in (module, *parts):
        if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
            raise UnsupportedOperation(
                f"the {type(part).__name__} has a hook or a forward of its own, so its weights are not what it does;"
                " pass one without"
            )
    arrays = []
    for name, part in (("first", parts[0]), ("second", parts[2])):
        assert isinstance(part, nn.Linear)
        for tensor in (part.weight, part.weight.new_zeros(part.out_features) if part.bias is None else part.bias):
            if tensor.dtype not in (torch.float32, torch.float64):
                raise UnsupportedOperation(f"the {name} layer is of {tensor.dtype}; float32 and float64 are taken")
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"the {name} layer has a weight or bias that is not finite")
            arrays.append(tensor.detach().cpu().to(torch.float64).numpy())
    A, a, B, b = arrays
    N = A.shape[1] if N is None else N
    if A.shape[1] != N or B.shape[1] != len(A):
        raise ValueError(f"the module takes {A.shape[1]} numbers and has layers {A.shape}, {B.shape}; N is {N}")
    return relu_ridge(A, a, np.column_stack([np.zeros((len(B), N)), B]), b)


def relu_ridge(factors: npt.ArrayLike, shifts: npt.ArrayLike, outputs: Floats, constants: Floats) -> RidgeFunctions:
    """outputs (x, relu(factors x + shifts)) + constants."""
    W, K = np.asarray(factors, dtype=np.float64), outputs.shape[1] - np.shape(factors)[1]
    arguments = np.column_stack([W, np.zeros((K, K))])
    return RidgeFunctions(("relu(x)",) * K, arguments, np.asarray(shifts, dtype=np.float64), outputs, constants)


def _read(formulas: Sequence[Formula], N: int) -> tuple[tuple[str, ...], list[Expression]]:
    if isinstance(formulas, str) or not formulas:
        raise FormulaError(f"a list of formulas was expected, one for each output, not {formulas!r}")
    if not isinstance(N, int) or N < 1:
        raise ValueError(f"N must be a positive whole number, not {N!r}")
    names = tuple(f"x{i}" for i in range(N))
    return names, [
        parse(to_text(read_formula(f, names) if isinstance(f, str) else _traced(f, names)), names) for f in formulas
    ]


def _traced(function: Callable[..., Any], names: Sequence[str]) -> Expression:
    try:
        return trace(function, names)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UnsupportedOperation(
            f"{function!r} cannot be traced as a function of {', '.join(names)}: {error}"
        ) from error


def _in_floats(a: tuple[Fraction, ...]) -> tuple[Fraction, tuple[Fraction, ...]]:
    """(s, a s): factors and constant as floats, by a whole number s where the constant is none."""
    s = Fraction(1 if _is_float(a[-1]) else a[-1].denominator)
    row = tuple(x * s for x in a)
    bad = next((x for x in row if not _is_float(x)), None)
    if bad is not None:
        raise FormulaError(f"the kink at {_shown(a)} = 0 has no factors that are floats: {bad}")
    return s, row


def _output(one: Layer, kinks: Sequence[tuple[Fraction, tuple[Fraction, ...]]]) -> list[Fraction]:
    """The exact coefficients of x, the units and 1."""
    units = [one.units.get(tuple(x / s for x in row), Fraction()) / s for s, row in kinks]
    return [*one.affine[:-1], *units, one.affine[-1]]


def _rounded(x: Fraction, domain: Box | None) -> float:
    if not _is_float(x) and (domain is None or abs(x) >= Fraction(2) ** 1020):
        raise FormulaError(
            f"the coefficient {x} is no float64, so no network is exact; give the domain, and it is rounded and the"
            " error bounded"
        )
    return float(x)


def _is_float(x: Fraction) -> bool:
    return abs(x) < Fraction(2) ** 1020 and Fraction(float(x)) == x


def _shown(a: Sequence[Fraction]) -> str:
    return " + ".join([*(f"{x} x{i}" for i, x in enumerate(a[:-1]) if x), str(a[-1])])


def _reach(rows: Exact, domain: Box) -> Exact:
    """The largest |row . (x, 1)| on the domain."""
    lo, hi = fractions(domain.lo), fractions(domain.hi)
    return np.asarray(np.abs(rows[:, :-1] @ ((lo + hi) / 2) + rows[:, -1]) + np.abs(rows[:, :-1]) @ ((hi - lo) / 2))


def _up(x: Fraction) -> float:
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else nextafter(nearest, inf)


def _values(expressions: Sequence[Expression], names: Sequence[str], box: Box, z: Floats) -> Floats:
    """(points, M) at z in [-1, 1]^N."""
    x = np.clip(box.lo / 2 + box.hi / 2 + (box.hi / 2 - box.lo / 2) * z, box.lo, box.hi)
    y = np.column_stack([values_at(expression, names, x) for expression in expressions])
    for point, output in zip(*np.nonzero(~np.isfinite(y)), strict=True):
        raise FormulaError(f"{to_text(expressions[output])} is undefined or infinite at x = {x[point].tolist()}")
    return y


@dataclass(frozen=True)
class _WaveRequest:
    """Formulas that a ReLU network is to follow within tol on a box, with at most so many units."""

    expressions: Sequence[Expression]
    box: Box
    tol: float
    most: int

    @property
    def where(self) -> str:
        return f"{', '.join(to_text(e) for e in self.expressions)} on {self.box}"

    def prove(self, fit: WaveFit, tol: float, goal: float, boxes: int) -> tuple[Waves, WavesProof]:
        """The fit as waves, without those that hardly do anything for tol, and the boxes that prove them."""
        waves = fit.waves(self.box.lo, self.box.hi)
        sizes = np.abs(fit.profiles).sum(axis=1).max(axis=1)
        kept = sizes > 1e-3 * tol / len(sizes)
        waves = Waves(waves.affine, waves.waves[kept], waves.polynomials[:, kept])
        return waves, prove_waves(self.expressions, waves, self.box.lo, self.box.hi, goal, boxes)

    def build(self, waves: Waves, proof: WavesProof, budget: float) -> tuple[RidgeFunctions, FormulasClaim] | None:
        """Lines within the budget of the waves, and the claim; None if it takes too many units."""
        lines = bend(_profiles(waves, self.box), budget, self.most)
        if lines is None:
            return None
        ridge, polynomials = _assembled(waves, lines)
        texts = tuple(to_text(expression) for expression in self.expressions)
        error = float((proof.bound + total_error(lines)) * SLACK)
        return ridge, FormulasClaim(texts, "taylor", proof.boxes, error, waves.waves, polynomials)

    def refuse(self, closest: WaveFit, spread: float) -> ToleranceError:
        """With the bound of the closest fit, where it can be proven."""
        refused = f"{self.where}: tol={self.tol:g} cannot be proven"
        for factor in (1.2, 3.0):
            waves, proof = self.prove(closest, closest.error, factor * closest.error, _BOXES[self.box.lo.size] // 4)
            built = self.build(waves, proof, proof.bound / 2) if proof.complete else None
            if built is not None and self.tol < built[1].error <= spread / 4:  # else a constant does nearly as well
                best = built[1].error
                return ToleranceError(f"{refused}; {round_up(best)} can be", best)
        return ToleranceError(f"{refused}, and no other error of use; is the function smooth, the domain small?")


def _profiles(waves: Waves, box: Box) -> list[Profile]:
    ends = waves.waves[:, :-1, None] * np.stack([box.lo, box.hi], axis=1)
    first, last = (pick(ends, axis=2).sum(axis=1) + waves.waves[:, -1] for pick in (np.min, np.max))
    return [Profile(waves.polynomials[:, w], first[w], last[w]) for w in range(len(waves.waves))]


def _assembled(waves: Waves, lines: Sequence[Bent]) -> tuple[RidgeFunctions, Floats]:
    """The ridge, and the waves' polynomials less each wave's first line, which is part of the outputs."""
    affine, polynomials = waves.affine.copy(), waves.polynomials.copy()
    N = affine.shape[1] - 1
    factors, shifts, outputs = [np.zeros((0, N))], [np.zeros(0)], [np.zeros((len(affine), 0))]
    for w, line in enumerate(lines):
        slope = line.slopes[:, 0]
        height = line.values[:, 0] - slope * line.knots[0]
        polynomials[:, w, 0] -= height
        polynomials[:, w, 1] -= slope
        affine += slope[:, None] * waves.waves[w]
        affine[:, -1] += height
        factors.append(np.repeat(waves.waves[w : w + 1, :-1], len(line.knots) - 2, axis=0))
        shifts.append(waves.waves[w, -1] - line.knots[1:-1])
        outputs.append(np.diff(line.slopes, axis=1))
    ridge = relu_ridge(
        np.concatenate(factors), np.concatenate(shifts), np.column_stack([affine[:, :-1], *outputs]), affine[:, -1]
    )
    return ridge, polynomials


def as_relu_network(target: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """(W_1, b_1, W_2, b_2) of a torch Sequential(Linear, ReLU, Linear), or of four arrays shaped as torch has them."""
    if isinstance(target, nn.Module):
        ridge = from_module(target)
        N = ridge.arguments.shape[1] - len(ridge.profiles)
        return ridge.arguments[:, :N], ridge.shifts, ridge.outputs[:, N:], ridge.constants
    try:
        W_1, b_1, W_2, b_2 = target
    except (TypeError, ValueError):
        raise ValueError(f"target must be a torch module or (W_1, b_1, W_2, b_2), not {target!r}") from None
    W_1, W_2 = finite_matrix("W_1", W_1), finite_matrix("W_2", W_2)
    b_1, b_2 = (finite_matrix(name, np.atleast_2d(b))[0] for name, b in (("b_1", b_1), ("b_2", b_2)))
    if not (len(W_1) == len(b_1) == W_2.shape[1] and len(W_2) == len(b_2)):
        shapes = ", ".join(str(np.shape(x)) for x in (W_1, b_1, W_2, b_2))
        raise ValueError(f"target: W_1, b_1, W_2, b_2 of shapes {shapes} do not fit together")
    return W_1, b_1, W_2, b_2


def evaluator(ridge: RidgeFunctions, claim: FormulasClaim | None) -> Callable[[Floats], Floats]:
    """The formulas, or the ReLU network where there are none, in plain floats: (count, n, d) -> (count, n, outputs)."""

    def of_formulas(flat: Floats) -> Floats:
        assert claim is not None
        names = tuple(f"x{i}" for i in range(flat.shape[1]))
        return np.stack([values_at(parse(text, names), names, flat) for text in claim.formulas], axis=1)

    def of_units(flat: Floats) -> Floats:
        known = flat
        for k in range(len(ridge.profiles)):
            arguments = known @ ridge.arguments[k, : known.shape[1]] + ridge.shifts[k]
            known = np.concatenate([known, np.maximum(arguments, 0)[:, None]], axis=1)
        found: Floats = known @ ridge.outputs.T + ridge.constants
        return found

    flat_values = of_units if claim is None else of_formulas
    return lambda x: flat_values(x.reshape(len(x), -1)).reshape(len(x), x.shape[1], -1)


def ridge_probes(ridge: RidgeFunctions, box: Box) -> Callable[[np.random.Generator, int], Floats]:
    """Corners, random inputs, and inputs at or beside the kink of a random unit."""
    n, d = box.lo.shape
    lo, hi = box.lo.ravel(), box.hi.ravel()
    weights = ridge.arguments[:, : n * d]

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = rng.uniform(lo, hi, (count, n * d))
        x[: count // 8] = np.where(rng.random((count // 8, n * d)) < 0.5, lo, hi)
        if len(weights):
            k = rng.integers(len(weights), size=count)
            norms = (weights[k] ** 2).sum(axis=1)
            wanted = rng.choice([0.0, 1e-12, -1e-12, 1e-8, -1e-8, 1e-5, -1e-5, 1e-2], count)
            missing = wanted - (x * weights[k]).sum(axis=1) - ridge.shifts[k]
            step = np.divide(missing, norms, out=np.zeros(count), where=norms > 0)[:, None] * weights[k]
            x = np.where((np.arange(count) >= count // 4)[:, None], np.clip(x + step, lo, hi), x)
        return x.reshape(count, n, d)

    return probes
