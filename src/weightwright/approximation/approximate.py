"""`approximate`: a function of a few numbers to one layer of attention heads, with a checked certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weightwright.approximation.kinked import Sees
from weightwright.approximation.measured import find_measured
from weightwright.approximation.opaque import read_derivative
from weightwright.approximation.proposals import Choice, Kernel, Method, Proposals, build
from weightwright.approximation.several import (
    MAX_VARIABLES,
    Proof,
    VectorRequest,
    approximate_several,
    confirm_proposal,
)
from weightwright.approximation.task import Task, confirm_again, make_task, outward, well_formed
from weightwright.box import Box
from weightwright.progress import Progress, Tell, show_progress
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain
from weightwright.runtime.weights import dtype_name

#: Keys that a network may have unless the caller says otherwise: half a million numbers.
MAX_ANCHORS = 65_536


def approximate(
    f: str | Callable[..., Any],
    domain: Box | tuple[Any, Any],
    tol: float,
    method: Method = "spectral",
    *,
    dtype: torch.dtype | str = torch.float64,
    kernel: Kernel = "dot",
    sees: Sees = "registers",
    dead_zone: float = 0.0,
    proof: Proof = "proven",
    derivative_bound: tuple[int, float] | None = None,
    max_anchors: int = MAX_ANCHORS,
    on_domain: OnDomain = "raise",
    progress: Progress = True,
) -> AttentionNetwork:
    """A network of one attention layer that returns f(x) within tol for every x of the domain, in its dtype.

    f: a formula in x, or a torch function of one tensor; on a Box of two or three features a formula in x, y (and z)
    or a function of as many tensors. A function that is no formula (scipy's, your own loop) can be measured, or
    proven from samples with a derivative_bound.
    domain: (lo, hi), numbers or texts such as "-pi/2"; a Box for several variables.
    tol: the largest error that is allowed; a float above 0.
    method: "spectral" takes the fewest anchors; "faithful" is the papers' construction, UA-2, with errors of order 1/p.
    dtype: torch.float64, float32 or bfloat16, or its name: the head is designed for it, runs in it, and the bound
    covers its rounding.
    kernel: "dot" is ordinary attention over all keys; "anchor" sees a window of nearby anchors with one exponential per
    token, whatever their number. The bound is about that kernel; no export runs it.
    sees: for an f that bends (relu, abs, max, min, clip) and is split at its kinks. "registers": every kink takes a
    head of one-sided keys on registers, which any Transformer can load. "self": a gate, two keys of which the token
    itself is one.
    dead_zone: where f jumps (sign, step), nothing is claimed within this distance of a jump; 0 refuses such an f.
    proof: "proven": the certificate is checked before the network is returned, its status is "PROVEN" and its bound at
    most tol. "measured" proves nothing: the status is "MEASURED", and the largest error that a search found,
    `net.certificate.measured.error`, is at most tol.
    derivative_bound: (order, bound) states how large a derivative of an f that is no formula can be; the status is
    then "CONDITIONAL" on it, and `certificate.assumptions` repeats it.
    max_anchors: a faithful head that needs more raises BudgetError.
    on_domain: what happens to inputs outside the domain: "raise" (DomainError), "clamp" or "ignore".
    progress: True says in a terminal or notebook what is being tried, once it takes over two seconds; False says
    nothing; a function is told.

    Raises ToleranceError with the best bound found if tol cannot be proven, BudgetError also if a proof in several
    variables would take too long, FormulaError where f is undefined.

    >>> net = approximate("sin(5*x)", domain=(-1, 1), tol=1e-8)
    >>> net.certificate.status, net.certificate.bound <= 1e-8
    ('PROVEN', True)
    """
    with show_progress(progress, "looking for a head") as tell:
        choice = _choose(method, kernel, sees, max_anchors)
        _known("proof", proof, ("proven", "measured"))
        name = dtype_name(dtype)
        well_formed(f, tol)
        derivative, box = read_derivative(derivative_bound), Box.of(domain)
        if box.lo.ndim == 1 and 1 < len(box.lo) <= MAX_VARIABLES:
            _one_variable_only(len(box.lo), choice, dead_zone, derivative)
            asked = VectorRequest(outward(box, name), float(tol), name, max_anchors, proof)
            return approximate_several(f, asked, on_domain, tell)
        task = make_task(f, box, tol, name, dead_zone, proof == "measured", derivative)
        net = _approximate_one(task, Proposals(task, choice, tell), proof, on_domain, tell)
        confirm_again(f, task.function, ("x",), task.box)
        return net


def _approximate_one(
    task: Task, proposals: Proposals, proof: Proof, on_domain: OnDomain, tell: Tell
) -> AttentionNetwork:
    """A function of one number: the first proposal that the checker agrees with, or that a search finds good enough."""
    if proof == "measured":
        networks = (build(task, design) for design in proposals.designs())
        found = find_measured(networks, task.reference, task.box, task.tol, task.where, proposals.zones)
        return AttentionNetwork(*found, on_domain)
    for proposal in proposals:
        tell("checking the certificate")
        net = confirm_proposal(proposal, on_domain)
        if net is not None:
            return net
    raise proposals.failure(lambda best: confirm_proposal(best, on_domain) is not None)


def _choose(method: Method, kernel: Kernel, sees: Sees, most: int) -> Choice:
    """The kind of heads that was asked for, or an error that names the argument."""
    _known("method", method, ("spectral", "faithful"))
    _known("kernel", kernel, ("dot", "anchor"))
    _known("sees", sees, ("registers", "self"))
    if not isinstance(most, int) or most < 2:
        raise ValueError(f"max_anchors must be a whole number of at least 2, not {most!r}")
    if kernel == "anchor" and (method == "faithful" or sees == "self"):
        other = "method='faithful'" if method == "faithful" else "sees='self'"
        raise ValueError(f"kernel='anchor' is for soft anchors on registers; {other} runs in kernel 'dot'")
    return Choice(method, kernel, sees, most)


def _known(name: str, value: object, known: tuple[str, str]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}")


def _one_variable_only(count: int, choice: Choice, dead_zone: float, derivative: tuple[int, float] | None) -> None:
    """What there is for one variable and not for several."""
    for name, value, default in (
        ("method", choice.method, "spectral"),
        ("kernel", choice.kernel, "dot"),
        ("sees", choice.sees, "registers"),
        ("dead_zone", dead_zone, 0.0),
        ("derivative_bound", derivative, None),
    ):
        if value != default:
            raise ValueError(f"{name}={value!r} takes one variable, not {count}")
