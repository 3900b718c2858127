"""What an exported file says about itself, in words. Names and roles are free text: here they become one safe line.

Files that appear whole or not at all, several at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from weightwright.box import Box
from weightwright.claims.certificate import (
    bound_in_words,
    computed_in_words,
    conditional,
    measured_in_words,
    status_in_words,
)
from weightwright.network import Head, Ramps
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.standing import passes_assume

#: What the bound of kernel "anchor" leans on in a file that has no such kernel.
WINDOWS = "weights of a window that are computed by squares are as good as those of the module's kernel"

#: What the bound of a sorted feed-forward layer leans on in a file that sums all of its units.
RAMPS = "sums over all units of the feed-forward layer find the plateau that the module's binary search finds"

PRODUCER = ("weightwright", version("weightwright"))

_DATA = {
    "none": "no data token",
    "self": "itself",
    "earlier": "itself and earlier tokens",
    "all": "all data tokens",
}


def line(text: str) -> str:
    """The text on one line: no line break, nothing that does not print."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


def listed(names: Sequence[str], most: int = 12) -> str:
    """A list of names that stays short."""
    shown = ", ".join(line(name) for name in names[:most])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > most else shown


def sees(head: Head) -> str:
    """Which keys a head looks at."""
    start, stop = head.sees.registers
    block = f"its block of {head.sees.block} tokens"
    data = block if head.sees.data == "block" else _DATA[head.sees.data]
    masked = " that its mask shows" if head.mask is not None else ""
    window = f", the {2 * head.window + 1} nearest to the query" if head.window is not None else ""
    asks = ", asked by its first token alone" if head.sees.asks == "first" else ""
    registers = f"registers {start} to {stop - 1}{window} and " if start < stop else ""
    return f"{registers}{data}{masked}{asks}"


def unwatched(net: AttentionNetwork) -> tuple[str, ...]:
    """What the bound of an export leans on because it does less than the module: it watches no states, computes
    windows by squares, and sums all units of a feed-forward layer."""
    said = net.said
    windows = any(head.window is not None for head in net.network.heads)
    ramps = any(isinstance(layer, Ramps) for layer in net.network.flat_layers)
    kernels = ((WINDOWS,) if windows else ()) + ((RAMPS,) if ramps else ())
    return (*(() if said is None else passes_assume(said)), *kernels)


def about(net: AttentionNetwork, elsewhere: Sequence[str] = ()) -> dict[str, str]:
    """Formula, domain, bound and status as they are now; a file cannot vouch for itself.

    elsewhere: what the bound leans on where the export runs, and the module does not."""
    claim = net.certificate if net.certificate is None else conditional(net.certificate, elsewhere)
    facts = {"written by": " ".join(PRODUCER), "dtype": net.network.dtype}
    if claim is None:
        return facts | {"certificate": "none"}
    facts |= {"formula": line(computed_in_words(claim)), "domain": _domain(net.network.inputs, claim.domain)}
    if claim.dead_zones:
        facts["nothing is claimed"] = ", ".join(f"between {lo!r} and {hi!r}" for lo, hi in claim.dead_zones)
    words = status_in_words(claim.status, claim.why)
    status = line(words.replace(claim.status, f"{claim.status} when this was written", 1))
    if claim.status == "EDITED":
        return facts | {"bound": "none", "status": status}
    if claim.measured is not None:
        found = f"{measured_in_words(claim)} {claim.measured.error:.3g} in {claim.measured.inputs} inputs"
        return facts | {"measured": found, "status": status}
    return facts | {
        "bound": f"{bound_in_words(claim)}, kernel {claim.kernel}",
        "status": status,
        "assuming": "; ".join(map(line, claim.assumptions)),
    }


def _domain(inputs: Sequence[str], box: Box) -> str:
    if box.lo.ndim > 1:
        return f"Box({box.lo.tolist()}, {box.hi.tolist()})"
    ends = zip(inputs, box.lo.tolist(), box.hi.tolist(), strict=True)
    return ", ".join(f"{line(name)} in [{lo!r}, {hi!r}]" for name, lo, hi in ends)
