"""Algorithms for one interpreter: each is a program, with its plain version and how far its head is from that.

`algorithm.plain(x)` is what it is to compute, `algorithm.error` how far the exact head is from it, `algorithm.how`
whether that is checked, derived or measured; what the module returns is within that and `vm.certificate.bound`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightwright.interpreter.library.algorithms import Algorithm as Algorithm
    from weightwright.interpreter.library.descent_programs import descend as descend
    from weightwright.interpreter.library.descent_programs import gradients as gradients
    from weightwright.interpreter.library.descent_programs import soft_threshold as soft_threshold
    from weightwright.interpreter.library.descent_programs import state_tokens as state_tokens
    from weightwright.interpreter.library.descent_programs import update as update
    from weightwright.interpreter.library.layer_programs import activation as activation
    from weightwright.interpreter.library.layer_programs import fold as fold
    from weightwright.interpreter.library.layer_programs import gates as gates
    from weightwright.interpreter.library.layer_programs import linear as linear
    from weightwright.interpreter.library.layer_programs import stack as stack
    from weightwright.interpreter.library.selecting_programs import average as average
    from weightwright.interpreter.library.selecting_programs import copy as copy
    from weightwright.interpreter.library.selecting_programs import nearest as nearest
    from weightwright.interpreter.library.selecting_programs import position_code as position_code
    from weightwright.interpreter.library.selecting_programs import previous as previous
    from weightwright.interpreter.library.selecting_programs import select as select
    from weightwright.interpreter.library.table_programs import route as route
    from weightwright.interpreter.library.table_programs import smooth as smooth

_HOMES = {
    "algorithms": ("Algorithm",),
    "descent_programs": (
        "descend",
        "gradients",
        "soft_threshold",
        "state_tokens",
        "update",
    ),
    "layer_programs": (
        "activation",
        "fold",
        "gates",
        "linear",
        "stack",
    ),
    "selecting_programs": (
        "average",
        "copy",
        "nearest",
        "position_code",
        "previous",
        "select",
    ),
    "table_programs": (
        "route",
        "smooth",
    ),
}


def __getattr__(name: str) -> Any:
    """On first use: listing the theorems waits for no torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"weightwright.interpreter.library.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(name for names in _HOMES.values() for name in names)
