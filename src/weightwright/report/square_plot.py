"""A picture of a network of two variables: the function, and the error of the network over the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from weightwright.claims.certificate import (
    VARIABLES,
    Certificate,
    measured_in_words,
    round_up,
)
from weightwright.enclosures.balls.series import series_along, working_precision
from weightwright.enclosures.intervals.jets import values_at
from weightwright.expressions import parse
from weightwright.numbers import Floats, counted

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork


_SIDE = 121  # points along each axis


def draw_square(figure: Any, net: AttentionNetwork, said: Certificate) -> None:
    """Two maps side by side, and a line that says how the largest error compares with the bound."""
    import torch

    lo, hi = said.domain.lo, said.domain.hi
    axes = [np.clip(a + (b - a) * np.linspace(0.0, 1.0, _SIDE), a, b) for a, b in zip(lo, hi, strict=True)]
    points = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    inputs = torch.tensor(points, dtype=net.dtype)
    points = np.clip(inputs.double().numpy(), lo, hi)  # the numbers that the network takes
    with torch.no_grad():
        y = net.run_anywhere(torch.tensor(points, dtype=net.dtype))[:, 0].double().cpu().numpy()
    formula, names = parse(said.formula, VARIABLES[:2]), VARIABLES[:2]
    errors = _errors(formula, points, y)
    left, right = figure.subplots(1, 2)
    extent = (*(float(x) for x in (lo[0], hi[0])), *(float(x) for x in (lo[1], hi[1])))
    _map(figure, left, values_at(formula, names, points), extent, "viridis", "function")
    worst = int(np.argmax(errors))
    _map(figure, right, errors, extent, "magma", "|network − function|")
    x, y_at = points[worst]
    right.plot([x], [y_at], "o", mfc="none", mec="tab:cyan", ms=9, mew=1.6, clip_on=False)
    right.set_title(f"largest of {len(points):,} points {errors[worst]:.3g} (circle)\n{_limit(said)}", fontsize=10)
    left.set_title("the function", fontsize=10)


def _limit(said: Certificate) -> str:
    if said.measured is not None:
        return f"no bound; {measured_error(said)} in {counted(said.measured.inputs, 'input')}"
    kind = "proven bound" if said.status == "PROVEN" else f"bound ({said.status.lower()})"
    return f"{kind} {round_up(said.bound)}"


def measured_error(said: Certificate) -> str:
    assert said.measured is not None
    return f"{measured_in_words(said)} {round_up(said.measured.error)}"


def _map(figure: Any, axes: Any, z: Floats, extent: tuple[float, ...], colours: str, label: str) -> None:
    picture = axes.imshow(
        z.reshape(_SIDE, _SIDE).T, origin="lower", extent=extent, aspect="auto", cmap=colours, interpolation="nearest"
    )
    figure.colorbar(picture, ax=axes, label=label)
    axes.grid(False)
    axes.locator_params(nbins=6)
    axes.set_xlabel("x")
    axes.set_ylabel("y")


def _errors(formula: Any, points: Floats, y: Floats) -> Floats:
    """|y - formula| with the formula in 128 bits."""
    with working_precision():
        exact = [
            abs(arb(out) - series_along(formula, {"x": (arb(a), arb(0)), "y": (arb(b), arb(0))}, 0)[0])
            for (a, b), out in zip(points.tolist(), y.tolist(), strict=True)
        ]
        return np.array([float(error.mid()) for error in exact])
