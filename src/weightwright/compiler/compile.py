"""`compile`: a PyTorch function or module to an attention-only network, with a checked certificate.

The stages, one after the other: trace (PyTorch -> graph of columns, compared with the function itself), lower
(graph -> network, with what its heads are claimed to compute), prove (the independent checker composes the claims over
the whole graph).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from weightwright.approximation.approximate import approximate
from weightwright.approximation.proposals import Kernel
from weightwright.approximation.several import Proof
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import INPUT, JUMPS, Graph
from weightwright.compiler.attempts import Compiled, certify_graph
from weightwright.compiler.from_values import build_from_values
from weightwright.compiler.lowering.undefined import finite_by_estimate
from weightwright.compiler.measured_network import measure_graph
from weightwright.compiler.request import Request, read_request
from weightwright.compiler.single_kinks import split_kinks
from weightwright.errors import FormulaError, NotRepeatable, UnclearError, UnsupportedOperation
from weightwright.expressions import to_text
from weightwright.numbers import counted
from weightwright.progress import Progress, show_progress
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES, OnDomain
from weightwright.stopwatch import stage, watch_stages
from weightwright.tracing.advice import advice
from weightwright.tracing.following.traced_function import trace_function
from weightwright.tracing.guard.confirm import confirm_function
from weightwright.tracing.guard.running_error import known_domain


def compile(
    function: Callable[..., Any] | nn.Module,
    domain: Box | tuple[Any, Any],
    tol: float,
    *,
    dtype: torch.dtype | str = torch.float64,
    kernel: Kernel = "dot",
    tokens: int | None = None,
    features: int | None = None,
    proof: Proof = "proven",
    derivative_bound: tuple[int, float] | None = None,
    ablatable: bool = False,
    dead_zone: float = 0.0,
    on_domain: OnDomain = "raise",
    progress: Progress = True,
) -> AttentionNetwork:
    """An attention-only network that returns function(x) within tol for every x of the domain, in its dtype.

    function: takes one tensor of shape (tokens, features) and returns (tokens, outputs), or what every token is to
    hold; a module in eval mode, or any Python function of torch operations. Loops are unrolled.
    domain: a Box with an interval for each feature, or for each token and feature; a pair of numbers stands for all
    `features`.
    tol: the largest error of any output that is allowed; a float above 0.
    dtype: torch.float64, float32 or bfloat16, or its name: what the network runs in, and whose rounding is covered.
    features: how many a token has, where the domain is a pair; read off a module's first layer where it is not said.
    tokens: how many there are; None if every token is treated by itself, and there may be any number.
    proof: "proven" returns nothing that the checker has not agreed with: the status is "PROVEN" and the bound at most
    tol, or ToleranceError names the columns that cost most. "measured" proves nothing: the certificate says the largest
    error that a search found, and why there is no proof.
    ablatable: a head's output is the function that its role names, nothing stands beside it in the stream, and the
    bound also holds where any of these heads are zeroed, of the function in which the same things are 0. Chains are
    taken step by step, abs(x) becomes relu(x) + relu(-x), and ranges are wider: docs/circuits.md has what it costs.
    dead_zone: where the function jumps (torch.sign, torch.where with a comparison whose sides do not meet), nothing is
    claimed of inputs that bring what is compared within dead_zone of the jump; 0 refuses such functions.
    kernel: "anchor" is for what one head computes of one number; see `approximate`.
    derivative_bound: (order, bound) of a function of one feature that cannot be traced: it is proven from samples.
    on_domain: what happens to inputs outside the domain: "raise" (DomainError), "clamp" or "ignore".
    progress: True says in a terminal or notebook what is being done, once it takes two seconds; a function is told.

    A function that cannot be traced raises UnsupportedOperation. One of up to three features with one output is then
    built from its values (vector anchors) with proof="measured", or in one feature with a derivative_bound.

    >>> import torch, weightwright as ww
    >>> net = ww.compile(lambda x: torch.softmax(x, dim=-1), ww.Box([-4] * 3, [4] * 3), tol=1e-9)
    >>> net.certificate.status, net(torch.zeros(1, 3, dtype=torch.float64)).shape
    ('PROVEN', torch.Size([1, 3]))
    """
    with show_progress(progress, "tracing") as tell:
        asked = read_request(
            function, domain, tol, dtype, kernel, tokens, features, proof, derivative_bound, dead_zone, on_domain, tell,
            ablatable,
        )  # fmt: skip
        tell("tracing")
        with watch_stages() as watch:
            net = _compile(asked)
        if isinstance(net.about, Compiled):
            net.about = replace(net.about, stages=watch.longest())
        return net


def _compile(asked: Request) -> AttentionNetwork:
    """Trace, lower, prove; and see that the function still is what was traced."""
    try:
        with known_domain(asked.box):
            with stage("trace the function"):
                graph = trace_function(asked.function, asked.box.lo.shape[-1], asked.tokens)
                graph = split_kinks(graph) if asked.ablatable else graph
            with stage("compare the graph with the function"):
                compare_again = confirm_function(asked.function, graph, asked.box)
    except UnsupportedOperation as error:
        if isinstance(error, NotRepeatable) or not asked.may_take_values:
            raise
        return build_from_values(asked, error)
    net = _build(graph, asked)
    with stage("compare the graph with the function"):
        compare_again()
    return net


def _build(graph: Graph, asked: Request) -> AttentionNetwork:
    """The network of a graph, PROVEN or MEASURED as requested."""
    if not asked.dead_zone:
        without_jumps(graph)
    if asked.derivative_bound is not None:
        raise ValueError("derivative_bound is for functions that cannot be traced; this one can")
    if asked.kernel == "anchor":
        return _one_window(graph, asked)
    asked.progress(f"lowering {counted(len(graph.nodes), 'column')}")
    if asked.proof == "measured":
        return _measured(graph, asked)
    return certify_graph(graph, asked, lambda lowered: certify(lowered.network, lowered.composite, asked.box))


def _measured(graph: Graph, asked: Request) -> AttentionNetwork:
    """Where ranges do not show that the function is defined everywhere, it may still be built from its values."""
    try:
        return measure_graph(graph, asked)
    except UnclearError as error:
        few = asked.may_take_values and len(graph.outputs) == 1
        if not few or not finite_by_estimate(graph, asked.box.lo[None], asked.box.hi[None]):
            raise
        return build_from_values(replace(asked, derivative_bound=None), error)


def _one_window(graph: Graph, asked: Request) -> AttentionNetwork:
    """Kernel "anchor": one function of one number, by one head that sees a window of its anchors."""
    inputs = [place for place, node in enumerate(graph.nodes) if node.op == INPUT]
    try:
        if len(graph.outputs) != 1 or len(inputs) != 1 or asked.box.lo.shape != (1,):
            raise FormulaError(f"it has {len(inputs)} inputs and {len(graph.outputs)} outputs")
        formula = to_text(compose_chain(graph, graph.outputs[0], inputs[0]))
    except FormulaError as error:
        raise ValueError(
            f"kernel='anchor' is for one function of one number, and {graph.name} is none ({error}): use kernel='dot'"
        ) from None
    return approximate(
        formula,
        asked.box,
        asked.tol,
        dtype=DTYPES[asked.dtype],
        kernel="anchor",
        dead_zone=asked.dead_zone,
        proof=asked.proof,
        on_domain=asked.on_domain,
        progress=asked.progress,
    )


def without_jumps(graph: Graph) -> None:
    """Refuse (UnsupportedOperation) what no table can hold."""
    for node in graph.nodes:
        if node.op in JUMPS:
            raise UnsupportedOperation(f"{node.label}: {advice('grad' if node.label.startswith('grad') else 'sign')}")
