"""Builds a theorem's small instance, measures it, and says how it came out."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

from weightwright.claims.certificate import status_in_words
from weightwright.papers.kit.instance import Check, Count, Instance, Outcome, judge
from weightwright.papers.kit.measure import estimate, measure, norm_of, pointwise_bound
from weightwright.papers.theorems.registry import Theorem
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True)
class Shown:
    """How a theorem came out: FAILED if it could not be built, an error exceeds its bound or a count is off; PROVEN if
    every variant is; MEASURED otherwise. bound, measured and norm are those of the first variant."""

    theorem: Theorem
    status: Outcome
    checks: tuple[Check, ...]
    counts: tuple[Count, ...]
    seconds: float
    reason: str | None = None
    instance: Instance | None = None

    @property
    def bound(self) -> float | None:
        return self.checks[0].bound if self.checks else None

    @property
    def measured(self) -> float | None:
        return self.checks[0].measured if self.checks else None

    @property
    def norm(self) -> str:
        return self.checks[0].norm if self.checks else "inf"


def show(theorem: Theorem, count: int = 2048, seed: int = 0) -> Shown:
    """Build and measure. An instance that raises is FAILED with the error as its reason, not an error of the caller."""
    start = time.perf_counter()
    try:
        instance = theorem.instance()
        checks = (*(check(name, net, count, seed) for name, net in instance.nets.items()), *instance.checks)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Shown(theorem, "FAILED", (), (), time.perf_counter() - start, reason)
    reasons = [f"{check.name}: {check.reason}" for check in checks if check.status == "FAILED"]
    reasons += [
        f"{count.what}: the formula {count.formula} gives {count.value:,}, but {count.built:,} were built"
        for count in instance.counts
        if not count.agrees
    ]
    if not checks and not instance.counts:
        reasons.append("the instance has no network, no check and no count")
    status: Outcome = "PROVEN" if checks and all(check.status == "PROVEN" for check in checks) else "MEASURED"
    return Shown(
        theorem,
        "FAILED" if reasons else status,
        checks,
        instance.counts,
        time.perf_counter() - start,
        "; ".join(reasons) or None,
        instance,
    )


def check(name: str, net: AttentionNetwork, count: int = 2048, seed: int = 0) -> Check:
    """One network against its bounds: measured adversarially, and by Monte Carlo where its certificate is in L_p."""
    about, said, power = net.about, net.certificate, norm_of(net)
    found = measure(net, count, seed)
    facts: dict[str, Any] = {
        "measured": found.error,
        "inputs": found.inputs,
        "native": net.network.native,
        "cost": dataclasses.asdict(net.cost),
        "chosen": dict(about.chosen),
        "printed": dict(about.printed),
        "bounds": dict(about.bounds),
        "notes": tuple(about.notes),
        "target_norm": about.target_norm,
        "size": found.size,
    }
    least = found.error
    if math.isfinite(power):
        sampled = estimate(net, power, max(count, 8192), seed)
        facts |= {"norm": f"L{power:g}", "measured": sampled.error, "inputs": sampled.inputs}
        facts["interval"] = (sampled.lo, sampled.hi)
        facts["notes"] += (f"the largest error found anywhere is {found.error:.3g}",)
        least = sampled.lo  # an estimate alone refutes nothing
    if said is None or said.measured is not None:
        return judge("MEASURED", name, None, **facts)
    bound, everywhere, reason = said.bound, pointwise_bound(net), None
    if not math.isfinite(bound):
        return judge("PROVEN", name, None, reason=f"the bound is {bound}", **facts)
    if said.status != "PROVEN":
        reason = f"the certificate is {status_in_words(said.status, said.why)}"
    elif not least <= bound:
        reason = f"the error found, {least!r}, exceeds the bound {bound!r}"
    elif everywhere is not None and not found.error <= everywhere:
        reason = f"the error found, {found.error!r}, exceeds the bound on every input {everywhere!r}"
    return judge("PROVEN", name, float(bound), reason=reason, **facts)
