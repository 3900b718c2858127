"""The small instances of UA-4 to UA-7, and how their L_1 error falls with the grid.

Functions of n d = 2 numbers on [-1, 1]², delta = g^-2. Each instance imports its own construction only.
"""

from __future__ import annotations

from typing import Any

from weightwright.papers.exhibits import counts as paper_counts
from weightwright.papers.kit.instance import Count, Instance, counted
from weightwright.papers.kit.rates import Study, sweep
from weightwright.runtime import AttentionNetwork

_F = "sin(2*x0) + abs(x1)/2"
_SORT = ("max(x0, x1)", "min(x0, x1)")
_N, _D = 2, 1  # tokens, features
_TERMS = ("sin(2*x0)", "abs(x1)/2", "x2*x0", "x3*x1", "x4/2", "x5/2")  # the first N are a function of N numbers
_CELLS = {1: 64, 2: 24, 3: 10, 4: 6, 5: 6, 6: 3}  # numbers: cells along each, as many as are proven in seconds


def bumps() -> Instance:
    """UA-4 with 9² cells: an odd number, so that the middle of the domain is a grid point."""
    from weightwright.papers.grids.bumps import bumps as bump_network
    from weightwright.papers.grids.bumps import counts_bumps

    net = bump_network(_F, _N, _D, g=9)
    return Instance((net,), counts=counted(net, "counts_bumps(n, d, g)", counts_bumps(_N, _D, 9)))


def to_scalar() -> Instance:
    """UA-5 with 5² cells."""
    from weightwright.papers.grids.grid_lookup import counts_sequence_to_scalar, sequence_to_scalar

    net = sequence_to_scalar(_F, _N, _D, g=5)
    values = counts_sequence_to_scalar(_N, _D, 5, int(net.about.chosen["p"]))
    return Instance((net,), counts=_counted(net, values, paper_counts.heads_to_scalar(_D, _N, 5), "1"))


def to_scalar_by_softmax() -> Instance:
    """UA-6 with 5² cells."""
    from weightwright.papers.grids.grid_lookup import counts_sequence_to_scalar_softmax as counts
    from weightwright.papers.grids.grid_lookup import sequence_to_scalar_softmax

    net = sequence_to_scalar_softmax(_F, _N, _D, g=5)
    values = counts(_N, _D, 5, int(net.about.chosen["p"]))
    return Instance((net,), counts=_counted(net, values, paper_counts.heads_to_scalar(_D, _N, 5), "1"))


def to_sequence() -> Instance:
    """UA-7: sorting two numbers with 5² cells, in two layers, and in one layer and a softmax."""
    import weightwright.papers.grids.grid_lookup as both

    two = both.sequence_to_sequence(_SORT, _N, _D, g=5)
    one = both.sequence_to_sequence_softmax(_SORT, _N, _D, g=5)
    p = int(two.about.chosen["p"])
    heads = paper_counts.heads_to_sequence(_D, _N, 5)
    counts = (
        *_counted(two, both.counts_sequence_to_sequence(_N, _D, 5, p), heads, "d n", "two layers"),
        *_counted(one, both.counts_sequence_to_sequence_softmax(_N, _D, 5, p), heads, "d n", "softmax"),
    )
    return Instance((two, one), names=("two layers", "softmax"), counts=counts)


def bumps_studies() -> tuple[Study, ...]:
    """UA-4: g = 4, 6, ..., 16; and functions of up to six numbers."""
    from weightwright.papers.grids.bumps import bumps as bump_network

    return _study("UA-4", bump_network, (4, 6, 8, 11, 16)), numbers_study(_CELLS)


def numbers_study(cells: dict[int, int]) -> Study:
    """The bound beside the norm of the target, for functions of N numbers on a grid of cells[N] along each."""
    from weightwright.papers.grids.bumps import bumps as bump_network

    def build(N: float) -> AttentionNetwork:
        return bump_network(" + ".join(_TERMS[: int(N)]), int(N), 1, g=cells[int(N)])

    series = sweep("UA-4", build, tuple(cells), count=4096)
    said = ", ".join(f"{g}" for g in cells.values())
    return Study(f"n d numbers, g = {said}", "n d, numbers", (series,), "linear", error_is="L_1 error, estimated")


def to_scalar_studies() -> tuple[Study, ...]:
    """UA-5: g = 4, 6, ..., 16."""
    from weightwright.papers.grids.grid_lookup import sequence_to_scalar

    return (_study("UA-5", sequence_to_scalar, (4, 6, 8, 11, 16)),)


def to_sequence_studies() -> tuple[Study, ...]:
    """UA-7: g = 4, 6, 8, 11; sorting."""
    from weightwright.papers.grids.grid_lookup import sequence_to_sequence

    def sort(f: str, n: int, d: int, g: int) -> AttentionNetwork:
        net: AttentionNetwork = sequence_to_sequence(_SORT, n, d, g=g)
        return net

    return (_study("UA-7", sort, (4, 6, 8, 11)),)


def _study(id: str, construction: Any, cells: tuple[int, ...]) -> Study:
    def build(g: float) -> AttentionNetwork:
        net: AttentionNetwork = construction(_F, _N, _D, g=int(g))
        return net

    series = sweep(id, build, cells, -1.0, count=4096)
    return Study("L_1 error of n d = 2 numbers", "g, cells along each axis", (series,), error_is="L_1 error, estimated")


def _counted(
    net: AttentionNetwork, values: dict[str, int], heads: int, last: str, name: str | None = None
) -> tuple[Count, ...]:
    parameters = paper_counts.parameters_of_grids(_D, _N, 5)
    orders = {
        "heads": (f"2 d g^(dn) + {last}", float(heads)),
        "parameters": ("d n g^(2dn) + (dn)²", float(parameters)),
    }
    return counted(net, "exact, as stored", values, orders, name)
