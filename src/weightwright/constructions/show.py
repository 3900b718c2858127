"""Builds a theorem's small instance, measures it, and says how it came out."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

from weightwright.constructions.instance import Check, Count, Instance, Norm, Outcome
from weightwright.constructions.measure import estimate, measure
from weightwright.constructions.theorem import Theorem
from weightwright.network import cost
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
        checks = (*(check(net, instance.norm, count, seed) for net in instance.nets), *instance.checks)
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


def check(net: AttentionNetwork, norm: Norm = "inf", count: int = 2048, seed: int = 0) -> Check:
    """One network against its bound: measured adversarially, or in an L_p norm by Monte Carlo."""
    about, said = net.about, net.certificate
    facts: dict[str, Any] = {
        "name": about.method,
        "norm": norm,
        "native": net.network.native,
        "cost": dataclasses.asdict(cost(net.network)),
        "chosen": dict(about.chosen),
        "printed": dict(about.printed),
        "bounds": dict(about.bounds),
        "notes": tuple(about.notes),
    }
    if norm == "inf":
        found = measure(net, count, seed)
        facts |= {"measured": found.error, "inputs": found.inputs}
        least = found.error
    else:
        sampled = estimate(net, int(norm[1:]), max(count, 20_000), seed)
        facts |= {"measured": sampled.error, "inputs": sampled.inputs, "interval": (sampled.lo, sampled.hi)}
        least = sampled.lo  # an estimate alone refutes nothing
    if said is None or said.measured is not None:
        return Check(status="MEASURED", bound=None, **facts)
    bound = float(said.bound if norm == "inf" else about.bounds[norm])
    if not math.isfinite(bound):
        return Check(status="FAILED", bound=None, reason=f"the bound in norm {norm} is {bound}", **facts)
    if said.status != "PROVEN":
        reason = f"the certificate is {said.status}, not checked in the same call"
        return Check(status="FAILED", bound=bound, reason=reason, **facts)
    if not least <= bound:
        reason = f"the error found, {least!r}, exceeds the bound {bound!r}"
        return Check(status="FAILED", bound=bound, reason=reason, **facts)
    return Check(status="PROVEN", bound=bound, **facts)
