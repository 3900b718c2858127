"""Pictures as files, in one style: the kinds that can be written, and writing whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weightwright.errors import MissingExtraError
from weightwright.output_files import check_writable, whole

#: Formats, and the metadata that would tell one run from the next.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "svg.hashsalt": "weightwright",
    "agg.path.chunksize": 10_000,
}


def check_plottable(path: str | os.PathLike[str]) -> None:
    """Raise before any work is done: an unknown kind of picture (ValueError), no folder for it, or no matplotlib."""
    check_writable(path, *_METADATA)
    require_matplotlib()


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib", "plot") from error


def drawn_figure(make: Callable[[], Any]) -> Any:
    """The figure that `make` draws, in our style."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        return make()


def write_figure(path: str | os.PathLike[str], make: Callable[[], Any]) -> None:
    """Write the figure that `make` draws in our style, whole or not at all."""
    from matplotlib import style

    target = Path(path)
    suffix = target.suffix.lower()
    with style.context(["default", _STYLE]), whole(target) as (partial,):
        make().savefig(partial, format=suffix[1:], dpi=150, metadata=_METADATA[suffix])
