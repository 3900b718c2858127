"""`approximate`: one function of one number to one attention head, with a checked certificate."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from weightwright.box import Box
from weightwright.certificates.checker import check
from weightwright.certificates.claims import Certificate, HeadClaim, assumptions, local_formula, rounded_up
from weightwright.certificates.files import network_digest, write
from weightwright.certificates.prover import network_terms, prove, prove_nearest
from weightwright.certificates.prover.intervals import Interval
from weightwright.certificates.prover.jets import jet, values
from weightwright.compiler.measure import first_measured
from weightwright.compiler.several import MAX_VARIABLES, Asked, Proof, approximate_several
from weightwright.compiler.trace import trace
from weightwright.errors import CertificateError, DomainError, FormulaError, ToleranceError
from weightwright.expressions import Expression, parse, to_text
from weightwright.heads.assemble import Query, Table, assemble
from weightwright.heads.faithful import nearest_anchor
from weightwright.heads.sigmoid import two_keys
from weightwright.heads.spectral import Designer
from weightwright.network import Network
from weightwright.network.laws import PRECISION, rounded
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES, OnDomain

Method = Literal["spectral", "faithful"]

MAX_ANCHORS = 65_536
#: Domains that are narrower or wider cannot be scaled to [-1, 1] with room to spare in the dtype.
WIDTHS = {"float64": (1e-300, 1e300), "float32": (1e-30, 1e30), "bfloat16": (1e-30, 1e30)}
#: The spectral search stops here: what so many soft anchors cannot do needs another kind of head, or more bits.
MAX_SPECTRAL = {"float64": 512, "float32": 256, "bfloat16": 32}
#: Fractions of the tolerance to aim for, one after the other; the rest is left to rounding and slack.
_AIMS = (0.93, 0.2, 0.02)
_SAMPLES = 2049
_SMALLEST_BOX = 40  # halvings of a 64th of the domain


@dataclass(frozen=True)
class _Task:
    """A formula on an interval, and how the head sees it."""

    formula: Expression
    text: str
    box: Box
    tol: float
    dtype: str
    query: Query
    mean: float
    local: Expression  # in s
    lo: float  # of s
    hi: float

    @property
    def where(self) -> str:
        return f"{self.text} on [{self.box.lo[0]:g}, {self.box.hi[0]:g}]"

    def target(self, s: Floats) -> Floats:
        return values(self.local, s)


def approximate(
    f: str | Callable[..., Any],
    domain: Box | tuple[Any, Any],
    tol: float,
    method: Method = "spectral",
    *,
    dtype: torch.dtype = torch.float64,
    proof: Proof = "proven",
    max_anchors: int = MAX_ANCHORS,
    on_domain: OnDomain = "raise",
    progress: Callable[[str], None] = lambda message: None,
) -> AttentionNetwork:
    """A network of one attention head that returns f(x) within tol for every x of the domain, in its dtype.

    f: a formula in x, or a torch function of one tensor; on a Box of two or three features a formula in x, y (and z)
    or a function of as many tensors. method: "spectral" (fewest anchors) or "faithful"
    (the papers' construction, UA-2, errors of order 1/p). dtype: torch.float64, float32 or bfloat16: the head is
    designed for it, runs in it, and the bound covers its rounding. Both are proven and checked before they are
    returned: `net.certificate.status` is "PROVEN" and `net.certificate.bound` at most tol. proof="measured" proves
    nothing: the status is "MEASURED" and the largest error that a search found, `net.certificate.measured.error`, is
    at most tol.

    Raises ToleranceError with the best bound found if tol cannot be proven, BudgetError if the faithful
    head would need more than max_anchors or a proof in several variables would take too long, FormulaError where f
    is undefined. `progress` is told what is being tried.

    >>> net = approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)
    >>> net.certificate.status, net.certificate.bound <= 1e-8
    ('PROVEN', True)
    """
    if method not in ("spectral", "faithful"):
        raise ValueError(f"method must be 'spectral' or 'faithful', not {method!r}")
    if proof not in ("proven", "measured"):
        raise ValueError(f"proof must be 'proven' or 'measured', not {proof!r}")
    if not isinstance(max_anchors, int) or max_anchors < 2:
        raise ValueError(f"max_anchors must be a whole number of at least 2, not {max_anchors!r}")
    box = Box.of(domain)
    if box.lo.ndim == 1 and 1 < len(box.lo) <= MAX_VARIABLES:
        if method == "faithful":
            raise ValueError(f"method='faithful' takes one variable, not {len(box.lo)}")
        _well_formed(f, tol)
        name = _dtype_name(dtype)
        asked = Asked(_outward(box, name), float(tol), name, max_anchors, proof)
        return approximate_several(f, asked, WIDTHS[name], _checked, on_domain, progress)
    task = _task(f, box, tol, _dtype_name(dtype))
    candidates = (
        _faithful(task, max_anchors)
        if method == "faithful"
        else _spectral(task, min(max_anchors, MAX_SPECTRAL[task.dtype]))
    )
    if proof == "measured":
        networks = (assemble(table, task.query, task.mean, task.text, role, task.dtype) for table, role in candidates)
        return AttentionNetwork(*first_measured(networks, task.text, task.box, task.tol, task.where), on_domain)
    best: tuple[Network, Certificate] | None = None
    for table, role in candidates:
        progress(f"proving a head with {len(table.keys)} anchors")
        attempt = _prove(task, table, role, method)
        if attempt is not None and (best is None or attempt[1].bound < best[1].bound):
            best = attempt
        if attempt is None or attempt[1].bound > task.tol:
            continue
        progress("checking the certificate")
        certificate = _checked(*attempt)
        if certificate is not None:
            return AttentionNetwork(attempt[0], certificate, on_domain)
    raise _not_provable(task, best)


def _dtype_name(dtype: torch.dtype) -> str:
    for name, known in DTYPES.items():
        if dtype == known:
            return name
    raise ValueError(f"dtype must be torch.float64, float32 or bfloat16, not {dtype!r}")


def _well_formed(f: str | Callable[..., Any], tol: float) -> None:
    if not isinstance(tol, int | float) or not (math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive finite number, not {tol!r}")
    if not (isinstance(f, str) or callable(f)):
        raise FormulaError(f"f must be a formula or a torch function, not {type(f).__name__}: {f!r}")


def _task(f: str | Callable[..., Any], domain: Box, tol: float, dtype: str) -> _Task:
    _well_formed(f, tol)
    if domain.lo.shape != (1,):
        raise DomainError(
            "domain: approximate takes an interval, or a box of two or three features,"
            f" not one of shape {domain.lo.shape}"
        )
    text = to_text(parse(f) if isinstance(f, str) else trace(f))
    formula = parse(text)  # as the checker will read it
    box = _outward(domain, dtype)
    lo, hi = float(box.lo[0]), float(box.hi[0])
    least, most = WIDTHS[dtype]
    if not least <= hi - lo <= most:
        raise DomainError(f"domain: [{lo!r}, {hi!r}] must be between {least:g} and {most:g} wide in {dtype}")
    query = Query.covering(lo, hi, dtype)
    _bounded(formula, text, lo, hi, most)
    mean = _mean(formula, lo, hi, dtype)
    local = parse(to_text(local_formula(formula, query.centre, query.scale, mean)), ("s",))
    return _Task(formula, text, box, float(tol), dtype, query, mean, local, *query.reach(lo, hi, dtype))


def _bounded(formula: Expression, text: str, lo: float, hi: float, most: float) -> None:
    """FormulaError where f cannot be enclosed: halve until every box stays below most, or is a point."""
    edges = np.linspace(lo, hi, 65)
    a, b = edges[:-1], edges[1:]
    for _ in range(_SMALLEST_BOX):
        enclosed = jet(formula, Interval(a, b), 0)[0]
        unknown = ~np.broadcast_to(enclosed.magnitude() < most, a.shape)
        a, b, middle = a[unknown], b[unknown], (a[unknown] + b[unknown]) / 2
        if not len(a):
            return
        a, b = (np.concatenate(ends)[:_SAMPLES] for ends in ((a, middle), (middle, b)))
    raise FormulaError(f"{text} is undefined, infinite or too large for a float at or near x = {float(a[0])!r}")


def _outward(box: Box, dtype: str) -> Box:
    """The box with ends of the dtype, rounded outward."""
    bits, lowest = PRECISION[dtype]

    def end(x: Floats, outward: float) -> Floats:
        nearest = rounded(x, dtype)
        unit = np.ldexp(1.0, np.maximum(np.frexp(nearest)[1] - bits, lowest))
        inside = nearest * outward < x * outward
        return rounded(np.where(inside, nearest + outward * unit, nearest), dtype)

    return Box(end(box.lo, -1.0), end(box.hi, 1.0))


def _mean(formula: Expression, lo: float, hi: float, dtype: str) -> float:
    """The middle of f's range, in few bits; 0 if that is as good."""
    y = values(formula, np.clip(lo + (hi - lo) * np.linspace(0.0, 1.0, _SAMPLES), lo, hi))
    middle, half = y.max() / 2 + y.min() / 2, y.max() / 2 - y.min() / 2
    bits = min(20, PRECISION[dtype][0])
    mantissa, exponent = math.frexp(middle)
    mean = math.ldexp(round(mantissa * 2**bits), exponent - bits)
    return 0.0 if abs(middle) <= half / 16 else float(rounded(np.array(mean), dtype))


def _spectral(task: _Task, most: int) -> Iterator[tuple[Table, str]]:
    exact = two_keys(task.local)
    if exact is not None:
        yield exact.rounded(task.dtype), f"{task.text}, two keys"
    designer = Designer(task.target, task.lo, task.hi, task.tol, most, task.dtype)
    tried: list[Table] = []
    for aim in _AIMS:
        for fit in designer.candidates(aim * task.tol):
            if any(fit.table is table for table in tried):
                continue
            tried.append(fit.table)
            yield fit.table, f"{task.text}, {len(fit.table.keys)} soft anchors"


def _faithful(task: _Task, most: int) -> Iterator[tuple[Table, str]]:
    edges = np.linspace(task.lo, task.hi, 257)
    slopes = np.broadcast_to(jet(task.local, Interval(edges[:-1], edges[1:]), 1)[1].magnitude(), 256)
    slope, largest = float(slopes.max()), float(np.abs(task.target(edges)).max())
    if not math.isfinite(slope):
        raise ToleranceError(f"{task.where}: method='faithful' needs a bounded slope, and none could be shown")
    table = nearest_anchor(task.target, task.lo, task.hi, slope, largest, task.tol, most)
    yield table.rounded(task.dtype), f"{task.text}, nearest of {len(table.keys)} anchors"


def _prove(task: _Task, table: Table, role: str, method: Method) -> tuple[Network, Certificate] | None:
    """The network and an unchecked certificate, or None where the prover found no finite bound."""
    network = assemble(table, task.query, task.mean, task.text, role, task.dtype)
    if method == "faithful":
        proof = prove_nearest(table.anchors, task.local, task.lo, task.hi, network.dtype)
    else:
        measured = _measured(task, table)
        proof = prove(table.anchors, task.local, task.lo, task.hi, network.dtype, 1.03 * measured)
    slip = 0.0 if task.query.exact else proof.lipschitz
    terms, bound = network_terms(
        proof.terms, slip, table.values, task.query.centre, task.mean, task.lo, task.hi, task.dtype
    )
    if not math.isfinite(bound):
        return None
    rule: Literal["taylor", "nearest"] = "nearest" if method == "faithful" else "taylor"
    claim = HeadClaim(0, 0, to_text(task.local), task.lo, task.hi, rule, proof.boxes, proof.terms, slip)
    certificate = Certificate(
        task.text,
        task.box,
        task.dtype,
        "dot",
        bound,
        terms,
        (claim,),
        network_digest(network),
        assumptions(task.dtype),
    )
    return network, certificate


def _measured(task: _Task, table: Table) -> float:
    """The head's error on a grid: what the prover should come close to."""
    s = np.linspace(task.lo, task.hi, _SAMPLES)
    scores = table.beta * (s[:, None] * table.keys + table.offsets)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(np.abs(weights @ table.values / weights.sum(axis=1) - task.target(s)).max())


def _checked(network: Network, certificate: Certificate) -> Certificate | None:
    """Saved to a file of its own and checked there; None if the checker does not agree."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        write(path, network, certificate)
        try:
            return dataclasses.replace(certificate, status=check(path).status)
        except CertificateError:
            return None


def _not_provable(task: _Task, best: tuple[Network, Certificate] | None) -> ToleranceError:
    useless = float(np.ptp(task.target(np.linspace(task.lo, task.hi, _SAMPLES)))) / 4
    if best is not None and task.dtype == "float64" and best[1].bound > useless:
        best = None  # a constant would do nearly as well, and checking it takes long; in fewer bits it may be the best
    checked = _checked(*best) if best is not None else None
    if best is None or checked is None:
        return ToleranceError(
            f"{task.where}: no error bound could be proven, so not tol={task.tol:g} either; is the slope unbounded,"
            " or the function undefined, at some point?"
        )
    anchors = len(best[0].registers)
    return ToleranceError(
        f"{task.where}: tol={task.tol:g} cannot be proven; the best bound found is {rounded_up(checked.bound)},"
        f" with {anchors} anchors",
        best=checked.bound,
    )
