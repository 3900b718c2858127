"""The tables of docs/compiled.md, timed in one run: `make bench` prints them, `make docs` writes the page.

What is compiled stands in examples/compiled.py. Tables: (a) float64 and exports, (b) float32, (c) predictions proven
equal, (d) cost against size.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

import weightwright as ww
from weightwright.approximation.table import forget_tables, propose_squares
from weightwright.claims.certificate import round_up
from weightwright.network.costs import cost
from weightwright.output_files import whole
from weightwright.prover.graph_values import evaluate
from weightwright.tracing.following.traced_function import trace_function

ROOT = Path(__file__).parents[1]
SEARCH_SECONDS = 2.0
#: In float32 the tolerance is so much of the range of the narrowest output, which random inputs tell.
OF_RANGE, INPUTS = 1e-4, 20_000
#: Of both digit networks in float32: a tenth of the smallest margin or less.
DIGITS_TOL = 0.01
WIDTHS = (16, 32, 64, 128, 256, 512)

Lines = Iterator[str]
Result = ww.AttentionNetwork | ww.WeightwrightError


def load_examples() -> ModuleType:
    """examples/compiled.py, under a name by which its dataclass finds its own module."""
    spec = importlib.util.spec_from_file_location("compiled_examples", ROOT / "examples" / "compiled.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def built(example: Any, tol: float, dtype: torch.dtype, proof: str) -> Result:
    """The network, or why there is none. Tables that earlier networks have left are forgotten: they would save time."""
    forget_tables()
    propose_squares.cache_clear()
    try:
        return ww.compile(example.function(), example.domain, tol, dtype=dtype, tokens=example.tokens, proof=proof)
    except ww.WeightwrightError as error:
        return error


def said(net: ww.AttentionNetwork) -> tuple[str, str]:
    """Status, and the bound or why there is none."""
    certificate = net.certificate
    assert certificate is not None
    if certificate.measured is None:
        return certificate.status, round_up(certificate.bound)
    return certificate.status, f"none: {certificate.measured.reason}"


def why(error: ww.WeightwrightError) -> str:
    """Why there is no network, without the list of columns that follows."""
    return re.split(r"[.;] the columns that cost most", str(error))[0]


def row(*cells: object) -> str:
    return "| " + " | ".join(" ".join(str(cell).replace("|", "\\|").split()) for cell in cells) + " |"


def head(*titles: str) -> Lines:
    yield row(*titles)
    yield "|---" * len(titles) + "|"


def float64_tables(examples: dict[str, Any], seconds: float = SEARCH_SECONDS) -> Lines:
    """Size, time, bound and largest error, each example as it asks to be compiled; then what exports differ by."""
    nets: dict[str, Result] = {}
    yield from head(
        *(
            "compiled",
            "operations",
            "layers",
            "heads",
            "registers",
            "parameters",
            "not 0",
            "compile",
            "prove or search",
        ),
        *("tol", "status", "bound", "largest error found"),
    )
    for name, example in examples.items():
        net = nets[name] = built(example, example.tol, torch.float64, example.proof)
        if isinstance(net, ww.AttentionNetwork):
            yield row(name, *sizes(net), f"{example.tol:g}", *said(net), f"{largest_error(net, seconds):.1e}")
        else:
            yield row(name, *[""] * 8, f"{example.tol:g}", "none", why(net), "")
    yield ""
    yield from head("exported: largest difference", "ONNX", "TransformerLens", "plain torch")
    for name, net in nets.items():
        yield row(name, *(exports(net) if isinstance(net, ww.AttentionNetwork) else ["", "", ""]))


def largest_error(net: ww.AttentionNetwork, seconds: float) -> float:
    """What a search finds; a network that is measured was searched already."""
    assert net.certificate is not None
    measured = net.certificate.measured
    return ww.search(net, seconds).error if measured is None else measured.error


def sizes(net: ww.AttentionNetwork) -> list[str]:
    """Operations, layers, heads, registers, parameters, those that are not 0, seconds to compile and to prove."""
    size, about = cost(net.network), net.about
    counts = (about.operations, size.layers, size.heads, len(net.network.registers), size.parameters, size.nonzeros)
    return [*(f"{n:,}" for n in counts), *(f"{s:.2f} s" for s in (about.compile_seconds, about.proof_seconds))]


def exports(net: ww.AttentionNetwork) -> list[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder)
        ways: list[Callable[[], float]] = [
            lambda: net.to_onnx(path / "net.onnx"),
            lambda: net.to_transformer_lens().difference,
            lambda: net.to_torch(path / "net.py"),
        ]
        return [_difference(way) for way in ways]


def _difference(way: Callable[[], float]) -> str:
    try:
        return f"{way():.1e}"
    except ww.WeightwrightError as error:
        return f"none: {why(error)}"


def output_range(example: Any) -> float:
    """How far the numbers of the narrowest output lie apart, on random inputs."""
    features = example.domain.lo.shape[-1]
    graph = trace_function(example.function(), features, example.tokens)
    shape = (INPUTS, example.tokens or 1, features)
    x = np.random.default_rng(0).uniform(example.domain.lo, example.domain.hi, shape)
    return float(np.ptp(evaluate(graph, x), axis=(0, 1)).min())


def float32_table(examples: dict[str, Any], seconds: float = SEARCH_SECONDS) -> Lines:
    """Status and largest error at a tolerance of 1e-4 of the output range: measured where that cannot be proven."""
    yield from head("compiled", "output range", "tol", "status", "bound", "largest error found", "error / range")
    for name, example in examples.items():
        wide = output_range(example)
        net = built(example, OF_RANGE * wide, torch.float32, example.proof)
        if not isinstance(net, ww.AttentionNetwork) and example.proof == "proven":
            net = built(example, OF_RANGE * wide, torch.float32, "measured")
        start = name, f"{wide:.3g}", f"{OF_RANGE * wide:.1e}"
        if not isinstance(net, ww.AttentionNetwork):
            yield row(*start, "none", why(net), "", "")
            continue
        error = largest_error(net, seconds)
        yield row(*start, *said(net), f"{error:.1e}", f"{error / wide:.1e}")


def digits_table(examples: ModuleType) -> Lines:
    """Whether the float32 networks are proven to name the same digit as the original module, on every image."""
    yield from head("compiled", "float32 bound", "smallest margin", "images", "proven equal", "found equal")
    X, _ = examples.digits()
    for name, example in examples.EXAMPLES.items():
        if not name.startswith("digits"):
            continue
        net = built(example, DIGITS_TOL, torch.float32, "proven")
        if not isinstance(net, ww.AttentionNetwork):
            yield row(name, f"none: {why(net)}", "", "", "", "")
            continue
        assert net.certificate is not None
        module, bound = example.function(), net.certificate.bound
        with torch.no_grad():
            exact = copy.deepcopy(module).double()(X.double())
            same = (net(X).argmax(dim=-1) == module(X).argmax(dim=-1)).sum().item()
        best = exact.topk(2, dim=-1).values
        margins = best[:, 0] - best[:, 1]
        counts = (len(X), int((margins > 2 * bound).sum()), same)
        yield row(name, round_up(bound), f"{margins.min():.3g}", *(f"{n:,}" for n in counts))


def growth_table(widths: tuple[int, ...] = WIDTHS) -> Lines:
    """GELU MLPs 16-w-8 as torch initialises them: what each costs, and the same for one operation."""
    yield from head(
        *("w", "operations", "heads", "registers", "parameters", "not 0", "compile", "prove"),
        *("for one operation: heads", "not 0", "compile", "prove"),
    )
    for width in widths:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, 8)).double()
        forget_tables()
        net = ww.compile(module, (-1, 1), 1e-6)
        size, about = cost(net.network), net.about
        operations, _, *others = sizes(net)
        each = [f"{count / about.operations:.2f}" for count in (size.heads, size.nonzeros)]
        times = [
            f"{1e3 * seconds / about.operations:.1f} ms" for seconds in (about.compile_seconds, about.proof_seconds)
        ]
        yield row(width, operations, *others, *each, *times)


def page(examples: ModuleType, only: str | None = None) -> Lines:
    """The page, line by line; one of its tables where `only` names it."""
    tables = {
        "a": lambda: float64_tables(examples.EXAMPLES),
        "b": lambda: float32_table(examples.EXAMPLES),
        "c": lambda: digits_table(examples),
        "d": growth_table,
    }
    if only is not None:
        yield from tables[only]()
        return
    yield INTRODUCTION
    for letter, table in tables.items():
        yield ABOUT[letter]
        yield from table()
        yield ""
    yield load_average(os.getloadavg()[2], os.cpu_count())


def load_average(load: float, cores: int | None) -> str:
    """How busy the machine was, so that times can be judged."""
    return f"The load average of the last 15 minutes of this run was {load:.1f} on {cores} cores."


INTRODUCTION = """# Compiled networks

Generated by `make docs`, which runs `benchmarks/compiled.py`; do not edit. What is compiled stands in
[examples/compiled.py](../examples/compiled.py), how it is done in [compiler.md](compiler.md). Times are from one run,
each example compiled from nothing; the last line says how busy the machine was: with a load above the number of cores
they are too long. PROVEN: the checker agreed in the same call, and the error is at most
the bound for every input of the domain, rounding included. MEASURED: nothing is proven. The largest error found is what
a search of two or three seconds came to; it is no bound.
"""

ABOUT = {
    "a": """## float64

*Operations* are the columns of the graph that are no input. *Parameters* are counted as they are stored, as dense
matrices; *not 0* are those that matter. The last example is asked for with `proof="measured"`, and the reason says why
nothing is proven. What the exports compute is compared on random inputs of the domain.
""",
    "b": """## float32

The same examples, asked for within 1e-4 of the range of the narrowest output (on 20,000 random inputs): proven if that
is possible at this tolerance, measured otherwise, with the reason. The bounds of float32 are pessimistic: every
rounding is taken to be as bad as it can be, and all at once. The errors that a search finds are what to expect.
""",
    "c": """## All predictions, proven

A network that is off by at most `bound` in every logit names the same digit as the original module wherever the
largest logit leads the second by more than twice the bound. *Smallest margin*: that lead, over all images, of the
original module in float64. *Proven equal*: images whose margin is large enough. *Found equal*: images on which the
float32 network and the float32 module were run and agree.
""",
    "d": """## Cost against size

GELU MLPs 16-w-8 on [-1, 1], float64, tol 1e-6. Operations are the units of both linear layers and the activations.
Heads, weights that are not 0 and time grow as the operations do; the registers are one table that all activations
share. Parameters as they are stored grow faster: every head has a row for every coordinate of the stream.
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("a", "b", "c", "d"), help="print one table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page as well")
    options = parser.parse_args()
    if options.only is not None and options.write is not None:
        parser.error("--write writes the whole page: leave --only out")
    lines = []
    for line in page(load_examples(), options.only):
        print(line, flush=True)
        lines.append(line)
    if options.write is not None:
        with whole(options.write) as (partial,):
            partial.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
