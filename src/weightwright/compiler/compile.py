"""`compile`: a PyTorch function or module to an attention-only network, with a checked certificate.

The stages, one after the other: trace (PyTorch -> graph of columns), lower (graph -> network, with what its heads are
claimed to compute), prove (the independent checker composes the claims over the whole graph).

A function whose graph is not known or of no use, built from its values: vector anchors in up to three features.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from weightwright.adversary.search import search
from weightwright.approximation.approximate import Kernel, approximate, dtype_name
from weightwright.approximation.several import MAX_VARIABLES, Proof
from weightwright.approximation.task import outward, well_formed
from weightwright.box import Box
from weightwright.certify import certified
from weightwright.claims.certificate import Certificate, MeasuredClaim, measured_certificate, rounded_up
from weightwright.claims.chain import compose_chain
from weightwright.claims.files import network_digest
from weightwright.claims.graph import INPUT, Graph
from weightwright.claims.target import Composite
from weightwright.compiler.lowering.by_logarithms import by_logarithms
from weightwright.compiler.lowering.lower import Lowered, lower
from weightwright.compiler.lowering.undefined import UnclearError, finite_by_estimate
from weightwright.errors import DomainError, FormulaError, NotRepeatable, ToleranceError, UnsupportedOperation
from weightwright.expressions import to_text
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain
from weightwright.tracing.traced_function import traced
from weightwright.tracing.user_source import advice

_UNTRACED = ", which cannot be traced"


def sampled(box: Box, tokens: int | None, proof: Proof, derivative_bound: tuple[int, float] | None) -> bool:
    """Whether there is a way without tracing: few features, token by token, and either no proof or a stated bound."""
    few = box.lo.ndim == 1 and len(box.lo) <= MAX_VARIABLES and tokens is None
    return few and (proof == "measured" or (derivative_bound is not None and len(box.lo) == 1))


def from_samples(
    function: Callable[..., Any],
    box: Box,
    tol: float,
    dtype: torch.dtype,
    kernel: Kernel,
    proof: Proof,
    derivative_bound: tuple[int, float] | None,
    on_domain: OnDomain,
    progress: Callable[[str], None],
    why: FormulaError | UnsupportedOperation,
) -> AttentionNetwork:
    """The network of `approximate`. Values come from calling the function with (count, features) float64 tensors.

    why: what is wrong with the graph.
    """

    def of_features(*columns: Any) -> Any:
        X = torch.stack([torch.as_tensor(column, dtype=torch.float64).reshape(-1) for column in columns], dim=-1)
        Y = torch.as_tensor(function(X))
        if Y.shape not in ((len(X),), (len(X), 1)):
            raise FormulaError(
                f"{name} returned shape {tuple(Y.shape)} for {len(X)} tokens; from samples it can have one output only."
                f" It was not traced because: {why}"
            )
        return Y.reshape(-1)

    name = getattr(function, "__name__", type(function).__name__)
    of_features.__name__ = name
    net = approximate(
        of_features,
        box,
        tol,
        dtype=dtype,
        kernel=kernel,
        proof=proof,
        derivative_bound=derivative_bound,
        on_domain=on_domain,
        progress=progress,
    )
    said = net.certificate
    if said is not None and said.measured is not None:
        reason = f"built from values of the function{_UNTRACED if isinstance(why, UnsupportedOperation) else ''}: {why}"
        net.certificate = replace(said, claim=replace(said.measured, reason=reason))
    return net


#: How often the heads are built anew with a smaller error each where the bound came out above the tolerance.
ATTEMPTS = 3
#: So much more of the estimated errors tables cover in the next attempt, and so many times finer heads are.
WIDER, FINER = 8.0, 8.0
#: Where approximation is less than so much of the bound, finer heads would not help.
ROUNDED = 0.02
#: How long a search for the largest error takes where nothing is proven.
SECONDS = 3.0
UNPROVEN = "proof='measured' builds the network without a proof"
MEASURED_HOW = (
    "corners, random inputs, inputs whose tokens or features are nearly alike, places between the anchors, then the"
    " surroundings of the worst; the worst of each round against the graph in 128 bits"
)


@dataclass(frozen=True)
class Compiled:
    """How a network came about: what it computes, and what the stages cost. `net.about` of a compiled network."""

    graph: Graph
    costs: tuple[tuple[str, float], ...]  # columns with their estimated share of the error, the largest first
    compile_seconds: float
    proof_seconds: float

    @property
    def operations(self) -> int:
        """Columns that are no input."""
        return sum(node.op != INPUT for node in self.graph.nodes)


def compile(
    function: Callable[..., Any] | nn.Module,
    domain: Box | tuple[Any, Any],
    tol: float,
    *,
    dtype: torch.dtype = torch.float64,
    kernel: Kernel = "dot",
    tokens: int | None = None,
    features: int | None = None,
    proof: Proof = "proven",
    derivative_bound: tuple[int, float] | None = None,
    on_domain: OnDomain = "raise",
    progress: Callable[[str], None] = lambda message: None,
) -> AttentionNetwork:
    """An attention-only network that returns function(x) within tol for every x of the domain, in its dtype.

    function: takes one tensor of shape (tokens, features) and returns (tokens, outputs), or what every token is to
    hold; a module in eval mode, or any Python function of torch operations. Loops are unrolled.
    domain: a Box with an interval for each feature, or for each token and feature; a pair of numbers stands for all
    `features` (read off a module's first layer where it is not said).
    tokens: how many there are; None if every token is treated by itself, and there may be any number.
    proof: "proven" returns nothing that the checker has not agreed with: the status is "PROVEN" and the bound at most
    tol, or ToleranceError names the columns that cost most. "measured" proves nothing: the certificate says the largest
    error that a search found, and why there is no proof.
    kernel: "anchor" is for what one head computes of one number; see `approximate`.
    A function that cannot be traced raises UnsupportedOperation. One of up to three features with one output is then
    built from its values (vector anchors) with proof="measured", or in one feature with a derivative_bound.

    >>> import torch, weightwright as ww
    >>> net = ww.compile(lambda x: torch.softmax(x, dim=-1), ww.Box([-4] * 3, [4] * 3), tol=1e-9)
    >>> net.certificate.status, net(torch.zeros(1, 3, dtype=torch.float64)).shape
    ('PROVEN', torch.Size([1, 3]))
    """
    _known("proof", proof, ("proven", "measured"))
    _known("kernel", kernel, ("dot", "anchor"))
    if not callable(function):
        raise ValueError(f"function must be a function of a tensor or a torch module, not {function!r}")
    well_formed(function, tol)
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        raise ValueError(f"tokens must be a whole number of at least 1, or None, not {tokens!r}")
    name = dtype_name(dtype)
    box = outward(_domain(domain, function, features, tokens), name)
    start = time.perf_counter()
    progress("tracing")
    try:
        graph = traced(function, box.lo.shape[-1], tokens)
    except UnsupportedOperation as error:
        if isinstance(error, NotRepeatable) or not sampled(box, tokens, proof, derivative_bound):
            raise
        return from_samples(function, box, tol, dtype, kernel, proof, derivative_bound, on_domain, progress, error)
    without_jumps(graph)
    if derivative_bound is not None:
        raise ValueError("derivative_bound is for functions that cannot be traced; this one can")
    if kernel == "anchor":
        return _one_window(graph, box, tol, dtype, proof, on_domain, progress)
    progress(f"lowering {len(graph.nodes)} columns")
    if proof == "measured":
        try:
            return _measured(graph, box, tol, name, on_domain, progress, start)
        except UnclearError as error:
            few = sampled(box, tokens, proof, None) and len(graph.outputs) == 1
            if not few or not finite_by_estimate(graph, box.lo[None], box.hi[None]):
                raise
            return from_samples(function, box, tol, dtype, kernel, proof, None, on_domain, progress, error)
    return proven(
        graph, box, tol, name, on_domain, progress, start, lambda low: certified(low.network, low.composite, box)
    )


def proven(
    graph: Graph, box: Box, tol: float, dtype: str, on_domain: OnDomain, progress: Callable[[str], None], start: float,
    certify: Callable[[Lowered], AttentionNetwork], instead: str = UNPROVEN,
) -> AttentionNetwork:  # fmt: skip
    """Heads that are accurate enough by estimate; more accurate ones where the checker's bound is above tol.

    certify: what is built of a lowered graph, with a certificate that the checker agreed with; or ToleranceError.
    instead: what to do where tol cannot be proven.
    """
    aim, proving, room = tol, 0.0, 1.0
    best: Certificate | None = None
    refusal: ToleranceError | None = None
    costs: tuple[tuple[str, float], ...] = ()
    for _ in range(ATTEMPTS):
        try:
            lowered = lower(graph, box, aim, dtype, progress, room=room)
        except ToleranceError:
            if best is None and refusal is None:
                raise
            break
        progress(f"checking {len(lowered.network.layers)} layers")
        begun = time.perf_counter()
        try:
            net = certify(lowered)
        except ToleranceError as error:
            refusal, costs, room = error, costs or lowered.costs, WIDER * room  # perhaps tables are too narrow
            continue
        finally:
            proving += time.perf_counter() - begun
        found = net.certificate
        assert found is not None
        if found.bound <= tol:
            net.on_domain = on_domain
            net.about = Compiled(graph, lowered.costs, time.perf_counter() - start - proving, proving)
            return net
        if best is None or found.bound < best.bound:
            best, costs = found, lowered.costs
        if found.terms.approximation < ROUNDED * found.bound:
            break
        aim = min(aim / FINER, aim * tol / found.bound / 2)
    if best is None:
        raise ToleranceError(f"{graph.name}: {refusal}; {_dearest(costs)}") from refusal
    raise ToleranceError(
        f"{graph.name}: tol={tol:g} cannot be proven in {dtype}; the best bound found is {rounded_up(best.bound)}"
        f" (approximation {best.terms.approximation:.2g}, rounding {best.terms.rounding:.2g}). {_dearest(costs)}."
        f" {instead}",
        best.bound,
    )


def _dearest(costs: tuple[tuple[str, float], ...]) -> str:
    if not costs:
        return "no column costs anything"
    told = ", ".join(f"{label} ({cost:.2g})" for label, cost in costs[:5])
    return f"The columns whose own heads cost most, by estimate: {told}"


def _measured(
    graph: Graph, box: Box, tol: float, dtype: str, on_domain: OnDomain, progress: Callable[[str], None], start: float
) -> AttentionNetwork:
    """The first way of computing the graph whose largest error in a search is at most tol."""
    least = math.inf
    costs: tuple[tuple[str, float], ...] = ()
    for lowered, reason in _ways(graph, box, tol, dtype, progress):
        built = time.perf_counter()
        progress("searching for the largest error")
        net = _searched(lowered, graph, box, reason or _reason(lowered, box, tol))
        found = net.certificate.measured if net.certificate is not None else None
        assert found is not None
        if found.error <= tol:
            net.on_domain = on_domain
            net.about = Compiled(graph, lowered.costs, built - start, time.perf_counter() - built)
            return net
        if found.error < least:
            least, costs = found.error, lowered.costs
    raise ToleranceError(
        f"{graph.name}: no network within tol={tol:g} was found in {dtype}; the smallest error measured is {least:.3g};"
        f" {_dearest(costs)}"
    )


def _ways(
    graph: Graph, box: Box, tol: float, dtype: str, progress: Callable[[str], None]
) -> Iterator[tuple[Lowered, str]]:
    """What few bits need; as if it were to be proven; without what a proof would need. With a reason why there is no
    proof, if that is known."""
    shape = (graph.tokens or 1, box.lo.shape[-1])
    ends = [np.broadcast_to(end, shape) for end in (box.lo, box.hi)]
    rewritten = by_logarithms(graph, *ends) if dtype != "float64" else None
    if rewritten is not None:
        other, limits = rewritten
        why = "products with a function of a sum of squares are taken by logarithms, of which nothing is proven"
        yield lower(other, box, tol, dtype, progress, provable=False, limits=limits), why
    try:
        yield lower(graph, box, tol, dtype, progress), ""
    except ToleranceError as error:
        yield lower(graph, box, tol, dtype, progress, provable=False), f"no proof: {error}"


def _searched(lowered: Lowered, graph: Graph, box: Box, reason: str) -> AttentionNetwork:
    """The network with a certificate that says the largest error that was found, against the graph."""
    network = lowered.network
    claims = lowered.composite if lowered.composite.target is graph else Composite(graph, ())
    net = AttentionNetwork(network)

    def said(error: float, inputs: int) -> None:
        claim = MeasuredClaim(error, inputs, MEASURED_HOW, reason, claims)
        digest = network_digest(network)
        net.certificate = measured_certificate(claim, graph.name, box, network.dtype, "dot", digest)

    said(math.inf, 0)
    worst = search(net, SECONDS)
    said(worst.error, worst.inputs)
    return net


def _reason(lowered: Lowered, box: Box, tol: float) -> str:
    """Why there is no proof, or that there could be one."""
    try:
        net = certified(lowered.network, lowered.composite, box)
    except ToleranceError as error:
        return f"no proof: {error}"
    assert net.certificate is not None
    if net.certificate.bound <= tol:
        return f"no proof was asked for; proof='proven' would give the bound {net.certificate.bound:.3g}"
    return f"errors compose to {net.certificate.bound:.3g} at worst, which is above tol={tol:g}"


def _one_window(
    graph: Graph, box: Box, tol: float, dtype: torch.dtype, proof: Proof, on_domain: OnDomain, progress: Any
) -> AttentionNetwork:
    """Kernel "anchor": one function of one number, by one head that sees a window of its anchors."""
    inputs = [place for place, node in enumerate(graph.nodes) if node.op == INPUT]
    try:
        if len(graph.outputs) != 1 or len(inputs) != 1 or box.lo.shape != (1,):
            raise FormulaError(f"it has {len(inputs)} inputs and {len(graph.outputs)} outputs")
        formula = to_text(compose_chain(graph, graph.outputs[0], inputs[0]))
    except FormulaError as error:
        raise ValueError(
            f"kernel='anchor' is for one function of one number, and {graph.name} is none ({error}): use kernel='dot'"
        ) from None
    return approximate(
        formula, box, tol, dtype=dtype, kernel="anchor", proof=proof, on_domain=on_domain, progress=progress
    )


def _domain(
    domain: Box | tuple[Any, Any], function: Callable[..., Any] | nn.Module, features: int | None, tokens: int | None
) -> Box:
    """(features,) or (tokens, features)."""
    box = Box.of(domain)
    if features is not None and (not isinstance(features, int) or features < 1):
        raise ValueError(f"features must be a whole number of at least 1, not {features!r}")
    if box.lo.ndim > 2 or (box.lo.ndim == 2 and tokens != len(box.lo)):
        raise DomainError(f"domain: a box of shape {box.lo.shape} does not go with tokens={tokens!r}")
    plain = not isinstance(domain, Box) and box.lo.shape == (1,)
    wanted = features or (_features_of(function) if plain else None) or box.lo.shape[-1]
    if box.lo.shape == (1,) and wanted != 1:
        return Box(np.repeat(box.lo, wanted), np.repeat(box.hi, wanted))
    if box.lo.shape[-1] != wanted:
        raise DomainError(f"domain: {box.lo.shape[-1]} intervals for {wanted} features")
    return box


def _features_of(function: Callable[..., Any] | nn.Module) -> int | None:
    """What the first layer of a module takes."""
    for module in function.modules() if isinstance(function, nn.Module) else ():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            return int(module.normalized_shape[-1])
    return None


def without_jumps(graph: Graph) -> None:
    """Refuse (UnsupportedOperation) what no table can hold."""
    for node in graph.nodes:
        if node.op in ("sign(x)", "step(x)"):
            raise UnsupportedOperation(f"{node.label}: {advice('sign')}")


def _known(name: str, value: Any, known: tuple[str, str]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}")
