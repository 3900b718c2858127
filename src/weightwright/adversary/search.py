"""`search`: looks for the worst input of a network, against its target in high precision.

A proof says that no input is worse than the bound; a search says how near the bound comes to the truth, and would catch
a proof that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weightwright.adversary.loops import search_one_pass
from weightwright.adversary.points import search_points
from weightwright.adversary.sequences import search_sequences
from weightwright.adversary.worst import Worst
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.scope import Subject
from weightwright.claims.target import Composite
from weightwright.errors import WeightwrightError
from weightwright.numbers import Floats
from weightwright.progress import Progress, show_progress
from weightwright.runtime import AttentionNetwork


def search(
    net: AttentionNetwork,
    seconds: float = 1.0,
    seed: int = 0,
    *,
    reference: Callable[[Floats], Floats] | None = None,
    progress: Progress = True,
) -> Worst:
    """The worst input of a network that can be found in about `seconds` seconds (at least one round).

    Where nothing is proven the bound is infinite, and the error what was measured. Of a network that runs a rule in a
    loop one pass is searched, also with states that differ from token to token.

    net: any network with a certificate.
    seconds: how long to look; at least one round is done.
    seed: of the inputs that are drawn; ends, kinks and points between keys are always among them.
    reference: the function itself, (n, inputs) float64 -> (n,), where the network's is no formula.
    progress: whether a terminal or notebook says so while it lasts.
    """
    with show_progress(progress, "looking for the worst input"):
        worst = _search(net, seconds, seed, reference)
    subject: Subject = "nothing" if net.certificate is None else net.certificate.subject
    return replace(worst, subject=subject)


def _search(net: AttentionNetwork, seconds: float, seed: int, reference: Callable[[Floats], Floats] | None) -> Worst:
    """By the kind of claim."""
    if not isinstance(net, AttentionNetwork):
        raise TypeError(f"net must be a network, as approximate, compile and load return one, not {net!r}")
    against = None if net.certificate is None else net.certificate.against
    if isinstance(against, Composite | LoopClaim):
        if reference is not None:
            raise ValueError("reference does nothing for a network whose certificate has its target")
        if isinstance(against, LoopClaim):
            return search_one_pass(net, against, seconds, seed)
        return search_sequences(net, against, seconds, seed)
    if against is not None and against.unsearched:
        raise WeightwrightError(against.unsearched)
    return search_points(net, seconds, seed, reference=reference)
