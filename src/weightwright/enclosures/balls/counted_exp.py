"""e^x for arrays of x <= 0 in plain float64, every rounding counted: no library's exponential is trusted.

x = k ln 2 + r with |r| <= 0.35, and e^r by its Taylor polynomial. k ln 2 is taken off in two parts: the first has 32
bits, so that its product with k and the difference are exact or rounded once; the second makes up for the rest.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.numbers import Floats

#: Below this the result is taken for e^LEAST, which is hardly above the smallest normal number.
LEAST = -708.0
#: Units of 2^-53 that a result is off by at most, relatively: 1 for r, whose two differences round at size 0.36; 3 for
#: the polynomial, whose last sum is 1 + r (...), of size 0.7 or more; 0.1 for what it leaves out, 0.36^14/14!. Tripled.
UNITS = 12
_HIGH = math.ldexp(math.floor(math.ldexp(math.log(2.0), 32)), -32)
#: ln 2 - _HIGH, to 53 bits.
_LOW = 1.9082149292705877e-10
#: The coefficients of the polynomial, the highest degree first.
_TERMS = [1.0 / math.factorial(j) for j in range(13, -1, -1)]


def counted_exp(x: Floats) -> Floats:
    """e^x within UNITS 2^-53 of itself, for x from LEAST to 0; e^LEAST below."""
    x = np.maximum(x, LEAST)
    k = np.rint(x * (1.0 / math.log(2.0)))
    r = (x - k * _HIGH) - k * _LOW
    total = np.full_like(r, _TERMS[0])
    for term in _TERMS[1:]:
        total *= r
        total += term
    return np.ldexp(total, k.astype(np.int32))
