"""From a head's terms to the network's: the query may round once, adding the mean rounds once."""

from __future__ import annotations

import numpy as np

from weightwright.certificates.claims import Terms
from weightwright.certificates.prover.intervals import Interval, up
from weightwright.certificates.prover.rounding import UNDERFLOW, UNIT
from weightwright.network.layers import Floats


def network_terms(
    head: Terms, lipschitz: float, values: Floats, centre: float, mean: float, lo: float, hi: float, dtype: str
) -> tuple[Terms, float]:
    """The terms of mean + head(s) for queries s in [lo, hi], and their sum, rounded up.

    lipschitz is the slope of what the head computes, 0 if the query does not round at all.
    """
    u = Interval.exact(UNIT[dtype])
    query = u * Interval.exact(max(abs(lo), abs(hi)) if centre else 0.0) + Interval.exact(UNDERFLOW[dtype])
    slip = Interval.exact(lipschitz) * query
    largest = Interval.exact(abs(mean)) + Interval.exact(np.abs(values).max()) + Interval.exact(head.rounding)
    final = u * largest if mean else Interval.exact(0.0)
    rounding = float((Interval.exact(head.rounding) + slip + final).hi)
    terms = Terms(head.approximation, head.leakage, rounding)
    total = up(up(np.float64(terms.approximation) + terms.leakage) + terms.rounding)
    return terms, float(up(total))
