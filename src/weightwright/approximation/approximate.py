"""`approximate`: a function of a few numbers to one layer of attention heads, with a checked certificate.

Designs for a formula with kinks: steps for its jumps beside gates or one-sided keys for its bends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from weightwright.approximation.designs import (
    AIMS,
    faithful_designs,
    spectral_designs,
    takes_many,
    two_keys_for,
    windowed_designs,
)
from weightwright.approximation.graded_designs import graded_designs, middle_designs
from weightwright.approximation.kinked import Kinked, Sees, find_kinks
from weightwright.approximation.kinks_by_gates import Gates
from weightwright.approximation.kinks_on_registers import OneSided
from weightwright.approximation.measured import first_measured
from weightwright.approximation.opaque import checked_derivative
from weightwright.approximation.prove_design import build, certified, checked
from weightwright.approximation.several import MAX_VARIABLES, Proof, VectorRequest, approximate_several
from weightwright.approximation.task import SAMPLES, Task, make_task, outward, well_formed
from weightwright.box import Box
from weightwright.claims.certificate import Certificate, rounded_up
from weightwright.errors import ToleranceError
from weightwright.heads.registers import Design
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES, OnDomain


def kinked_designs(kinked: Kinked, most: int, sees: Sees) -> Iterator[Design]:
    """Everything worth proving, fewest keys first."""
    continuous = Gates(kinked, most) if sees == "self" else OneSided(kinked, most)
    for share in AIMS:
        aim = share * kinked.task.tol
        tables, roles = kinked.step_tables(aim / (4 * max(len(kinked.steps), 1)))
        for rest in continuous.designs(aim if not tables else aim / 2):
            design = replace(rest, tables=(*rest.tables, *tables), roles=(*rest.roles, *roles))
            if 0 < design.size <= most:
                yield design


Method = Literal["spectral", "faithful"]
Kernel = Literal["dot", "anchor"]

MAX_ANCHORS = 65_536


def approximate(
    f: str | Callable[..., Any],
    domain: Box | tuple[Any, Any],
    tol: float,
    method: Method = "spectral",
    *,
    dtype: torch.dtype = torch.float64,
    kernel: Kernel = "dot",
    sees: Sees = "registers",
    dead_zone: float = 0.0,
    proof: Proof = "proven",
    derivative_bound: tuple[int, float] | None = None,
    max_anchors: int = MAX_ANCHORS,
    on_domain: OnDomain = "raise",
    progress: Callable[[str], None] = lambda message: None,
) -> AttentionNetwork:
    """A network of one attention layer that returns f(x) within tol for every x of the domain, in its dtype.

    f: a formula in x, or a torch function of one tensor; on a Box of two or three features a formula in x, y (and z)
    or a function of as many tensors. method: "spectral" (fewest anchors) or "faithful" (the papers' construction, UA-2,
    errors of order 1/p). dtype: torch.float64, float32 or bfloat16: the head is designed for it, runs in it, and the
    bound covers its rounding. It is proven and checked before it is returned: `net.certificate.status` is "PROVEN" and
    `net.certificate.bound` at most tol. proof="measured" proves nothing: the status is "MEASURED" and the largest error
    that a search found, `net.certificate.measured.error`, is at most tol. A function that is no formula (scipy's, your
    own loop) can be measured so, or proven from samples if
    derivative_bound=(order, bound) states how large a derivative of it can be; certificate.assumptions repeats it.

    kernel: "dot" is ordinary attention over all keys; "anchor" sees a window of nearby anchors with one exponential per
    token, whatever their number. The bound is about that kernel; no export runs it.

    A smooth f takes one head. One that bends (relu, abs, max, min, clip) is split at its kinks: with sees="registers"
    every kink takes a head of one-sided keys on registers, which any Transformer can load; with sees="self" a gate, two
    keys of which the token itself is one. Where f jumps (sign, step), nothing is claimed within dead_zone of a jump.

    Raises ToleranceError with the best bound found if tol cannot be proven, BudgetError if the faithful
    head would need more than max_anchors or a proof in several variables would take too long, FormulaError where f
    is undefined. `progress` is told what is being tried.

    >>> net = approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)
    >>> net.certificate.status, net.certificate.bound <= 1e-8
    ('PROVEN', True)
    """
    for name, value, known in (
        ("method", method, ("spectral", "faithful")),
        ("kernel", kernel, ("dot", "anchor")),
        ("sees", sees, ("registers", "self")),
        ("proof", proof, ("proven", "measured")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}")
    if not isinstance(max_anchors, int) or max_anchors < 2:
        raise ValueError(f"max_anchors must be a whole number of at least 2, not {max_anchors!r}")
    if kernel == "anchor" and (method == "faithful" or sees == "self"):
        other = "method='faithful'" if method == "faithful" else "sees='self'"
        raise ValueError(f"kernel='anchor' is for soft anchors on registers; {other} runs in kernel 'dot'")
    well_formed(f, tol)
    derivative, box = checked_derivative(derivative_bound), Box.of(domain)
    if box.lo.ndim == 1 and 1 < len(box.lo) <= MAX_VARIABLES:
        _one_variable_only(len(box.lo), method, kernel, sees, dead_zone, derivative)
        asked = VectorRequest(outward(box, dtype_name(dtype)), float(tol), dtype_name(dtype), max_anchors, proof)
        return approximate_several(f, asked, on_domain, progress)
    task = make_task(f, box, tol, dtype_name(dtype), dead_zone, proof == "measured", derivative)
    kinked = find_kinks(task)
    designs = _designs(task, kinked, method, kernel, sees, max_anchors)
    positions, zones = (kinked.positions, kinked.zones) if kinked is not None else (np.zeros(0), np.zeros((0, 2)))
    if proof == "measured":
        networks = (build(task, design) for design in designs)
        found = first_measured(networks, task.reference, task.box, task.tol, task.where, zones)
        return AttentionNetwork(*found, on_domain)
    best: tuple[Network, Certificate] | None = None
    for design in designs:
        progress(f"proving a head with {design.size} anchors")
        attempt = certified(task, design, "nearest" if method == "faithful" else "taylor", positions, zones)
        if attempt is not None and (best is None or attempt[1].bound < best[1].bound):
            best = attempt
        if attempt is None or attempt[1].bound > task.tol:
            continue
        progress("checking the certificate")
        certificate = checked(*attempt)
        if certificate is not None:
            return AttentionNetwork(attempt[0], certificate, on_domain)
    bends = kinked is not None and sees == "registers" and kernel == "dot"
    raise _not_provable(task, best, "; a gate, sees='self', may do better" if bends else "")


def _designs(
    task: Task, kinked: Kinked | None, method: Method, kernel: Kernel, sees: Sees, most: int
) -> Iterator[Design]:
    """What to try to prove, one after the other."""
    if method == "faithful":
        yield from faithful_designs(task, most)
        return
    if kernel == "anchor":
        yield from windowed_designs(task, most)
        return
    if kinked is not None:
        yield from kinked_designs(kinked, most, sees)
    elif (yield from graded_designs(task, most)):
        return
    if kinked is None and two_keys_for(task) is None and takes_many(task):
        yield from middle_designs(task, most)
    if kinked is None or not len(kinked.zones):
        yield from spectral_designs(task, most)


def _one_variable_only(
    count: int, method: Method, kernel: Kernel, sees: Sees, dead_zone: float, derivative: tuple[int, float] | None
) -> None:
    """What there is for one variable and not for several."""
    for name, value, default in (
        ("method", method, "spectral"),
        ("kernel", kernel, "dot"),
        ("sees", sees, "registers"),
        ("dead_zone", dead_zone, 0.0),
        ("derivative_bound", derivative, None),
    ):
        if value != default:
            raise ValueError(f"{name}={value!r} takes one variable, not {count}")


def dtype_name(dtype: torch.dtype) -> str:
    """What a network calls the dtype."""
    for name, known in DTYPES.items():
        if dtype == known:
            return name
    raise ValueError(f"dtype must be torch.float64, float32 or bfloat16, not {dtype!r}")


def _not_provable(task: Task, best: tuple[Network, Certificate] | None, hint: str) -> ToleranceError:
    useless = float(np.ptp(task.target(np.linspace(task.lo, task.hi, SAMPLES)))) / 4
    if best is not None and task.dtype == "float64" and best[1].bound > useless:
        best = None  # a constant would do nearly as well, and checking it takes long; in fewer bits it may be the best
    certificate = checked(*best) if best is not None else None
    if best is None or certificate is None:
        return ToleranceError(
            f"{task.where}: no error bound could be proven, so not tol={task.tol:g} either; is the slope unbounded,"
            " or the function undefined, at some point?"
        )
    anchors = len(best[0].registers)
    return ToleranceError(
        f"{task.where}: tol={task.tol:g} cannot be proven; the best bound found is {rounded_up(certificate.bound)},"
        f" with {anchors} anchors{hint}",
        best=certificate.bound,
    )
