"""`selftest`: what this machine makes of every operation of the rounding model, beside what the table allows it.

Results are compared with exact ones: rational numbers, and balls for exponentials. A search, no proof: it finds
processors and libraries that depart from the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from flint import arb
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from weightwright.checker.core.machine import TABLE, Rounding
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import WeightwrightError
from weightwright.numbers import FORMATS, SMALLEST, UNIT
from weightwright.runtime.weights import DTYPES

#: Batches at which products of matrices are looked at: libraries take other ways through small and large ones.
BATCHES = (1, 7, 4096)
#: Sizes of the matrices: (numbers that are added up, columns).
SHAPES = ((1, 1), (1, 32), (2, 2), (3, 8), (16, 8), (64, 32))
#: Results of each operation that are compared in float32 and float64, in a short test and in a whole one.
SHORT, WHOLE = 400, 20_000
#: Exponentials of kernel "anchor" are looked at from 0 down to minus this; those of "dot" to where they underflow.
NEAR = 8.0

Exact = Callable[[Fraction, Fraction], Fraction]


@dataclass(frozen=True)
class Measured:
    """One row of the rounding model with what was found."""

    operation: str  # what was computed
    dtype: str  # in which numbers
    kernel: str  # by which code
    allowed: Rounding  # what proofs take for granted
    units: float  # the largest relative error, in unit roundoffs
    lost: float  # the largest error of results below the smallest normal number, in units of it
    flushes: bool  # whether a subnormal input was taken for 0
    results: int  # how many were compared

    @property
    def departs(self) -> bool:
        """Whether the machine does worse than the table says. What is flushed loses one smallest normal number."""
        lost = self.allowed.lost + (self.allowed.flushes and self.flushes)
        return self.units > self.allowed.units or self.lost > lost or (self.flushes and not self.allowed.flushes)


class _Found:
    """The largest errors so far."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.units, self.lost, self.flushes, self.results = dtype, 0.0, 0.0, False, 0

    def compare(self, computed: float, exact: Fraction, size: Fraction | None = None, count: int = 1) -> None:
        """One result of `count` roundings, whose terms are of this size together; of itself, if it is one number."""
        smallest = Fraction(SMALLEST[self.dtype])
        size = abs(exact) if size is None else size
        self.results += 1
        error = abs(Fraction(computed) - exact) if math.isfinite(computed) else Fraction(2) ** 2000
        if size < smallest:
            self.lost = max(self.lost, float(error / smallest))
        else:
            below = min(error, count * smallest) if count > 1 else 0  # partial sums may be flushed
            self.units = max(self.units, float((error - below) / (count * Fraction(UNIT[self.dtype]) * size)))

    def row(self, operation: str, kernel: str) -> Measured:
        allowed = TABLE[operation, self.dtype, kernel]
        return Measured(operation, self.dtype, kernel, allowed, self.units, self.lost, self.flushes, self.results)


def selftest(short: bool = False, device: str = "cpu", seed: int = 0) -> list[Measured]:
    """Measure every row of the rounding model on this machine.

    short: fewer inputs, a second or two instead of a minute.
    device: where torch computes; "cuda" says what a GPU does, on which certificates are CONDITIONAL.
    seed: of the inputs that are drawn; ends, ties and subnormal numbers are always among them.

    >>> import weightwright as ww
    >>> any(row.departs for row in ww.selftest(short=True))
    False
    """
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise WeightwrightError(f"torch does not compute on device={device!r} here; device='cpu' is there") from None
    rng = np.random.default_rng(seed)
    with working_precision(), torch.no_grad():
        return [row for dtype in DTYPES for row in _rows(dtype, short, device, rng)]


def _rows(dtype: str, short: bool, device: str, rng: np.random.Generator) -> Iterator[Measured]:
    count = SHORT if short else WHOLE
    a, b = (_draw(dtype, count, rng).to(device) for _ in range(2))
    elementwise = {
        "sum": _pairs(dtype, a, b, torch.add, lambda x, y: x + y),
        "product": _pairs(dtype, a, b, torch.mul, lambda x, y: x * y),
    }
    division = _pairs(dtype, a, torch.where(b == 0, torch.ones_like(b), b), torch.div, lambda x, y: x / y)
    products, copies = _matrix_products(dtype, short, device, rng), _copies(dtype, a)
    reach = {"dot": 4 - math.log(SMALLEST[dtype]), "anchor": NEAR}
    exponentials = {kernel: _exponentials(dtype, short, device, rng, far) for kernel, far in reach.items()}
    for kernel in ("dot", "anchor"):
        yield copies.row("copy", kernel)
        yield from (found.row(name, kernel) for name, found in elementwise.items())
        yield products.row("matrix product", kernel)
        yield exponentials[kernel].row("exp", kernel)
        yield division.row("division", kernel)


def _draw(dtype: str, count: int, rng: np.random.Generator) -> Tensor:
    """Numbers of all sizes; among them subnormal ones, ends, powers of two and their neighbours, and zeros."""
    format = FORMATS[dtype]
    low, high = format.lowest, 1 - format.least_exponent
    exponents = rng.integers(low, high, count)
    exponents[: count // 4] = rng.integers(low, format.least_exponent + 4, count // 4)
    near_powers = 1 + rng.choice([0.0, 1.0, 2.0, 2.0**format.bits - 1], count) * format.unit
    mantissas = rng.choice([-1.0, 1.0], count) * near_powers
    plain = rng.random(count) < 0.6
    mantissas[plain] = rng.uniform(-2, 2, int(plain.sum()))
    numbers = np.ldexp(mantissas, exponents)
    numbers[::50] = 0.0
    return torch.tensor(rng.permutation(numbers)).to(DTYPES[dtype])


def _pairs(dtype: str, a: Tensor, b: Tensor, run: Callable[[Tensor, Tensor], Tensor], exact: Exact) -> _Found:
    """One operation on pairs of numbers; results that overflow are left out. Near ones make ties and cancel."""
    found = _Found(dtype)
    for left, right in ((a, b), (a, torch.nextafter(-a, b)), (a, (1 + b.sign() * 2.0**-4).to(a.dtype))):
        right = torch.where(right == 0, torch.ones_like(right), right)
        for x, y, z in zip(left.tolist(), right.tolist(), run(left, right).tolist(), strict=True):
            if math.isfinite(z) and math.isfinite(x) and math.isfinite(y):
                found.compare(z, exact(Fraction(x), Fraction(y)))
    return found


def _copies(dtype: str, a: Tensor) -> _Found:
    """What only moves numbers keeps all their bits: indexing, padding, stacking, choosing, the maximum."""
    found, rows = _Found(dtype), a.reshape(-1, 1)
    moved = [torch.cat([rows, rows])[len(rows) :], rows[torch.arange(len(rows), device=a.device)]]
    moved += [torch.where(rows == 0, rows, rows), pad(rows, (0, 1))[:, :1], rows.amax(-1, keepdim=True)]
    for other in moved:
        for x, y in zip(rows[:, 0].tolist(), other[:, 0].tolist(), strict=True):
            found.compare(y, Fraction(x))
    return found


def _matrix_products(dtype: str, short: bool, device: str, rng: np.random.Generator) -> _Found:
    found = _Found(dtype)
    threads = torch.get_num_threads()
    try:
        for number in {1, threads}:
            torch.set_num_threads(number)
            _single_products(found, short, device)
            _sums_of_products(found, device, rng)
    finally:
        torch.set_num_threads(threads)
    return found


def _single_products(found: _Found, short: bool, device: str) -> None:
    """x times a power of two, the other numbers of the sum being 0: exact, unless a subnormal x is taken for 0. In
    bfloat16 every x there is, elsewhere those around the smallest normal number and the ends."""
    kind = DTYPES[found.dtype]
    x = _every_bfloat16() if found.dtype == "bfloat16" else _around_the_ends(found.dtype)
    if short:
        x = torch.cat([x[:: max(1, len(x) // 256)], _around_the_ends(found.dtype)])
    x = x.to(device)
    for k, columns in SHAPES[:: 3 if short else 1]:
        up = 2.0 ** -FORMATS[found.dtype].least_exponent
        for factor in (1.0, up):
            A = torch.zeros(k, columns, dtype=kind, device=device)
            A[0] = factor
            for batch in BATCHES:
                rows = x if batch > 1 or not short else x[:64]
                fits = rows[rows.double().abs() <= 2.0**100 / factor] if factor > 1 else rows
                parts = pad(fits[:, None], (0, k - 1)).split(batch)  # (batch, k): x and zeros
                y = torch.cat([(part @ A)[:, -1] for part in parts])
                exact = fits.double() * factor
                flushed = _is_subnormal(fits) & (_magnitude_bits(y) == 0)
                found.flushes |= bool(flushed.any())
                wrong = (y.double() != exact) & ~flushed
                found.results += len(fits)
                for computed, right in zip(y[wrong].tolist(), exact[wrong].tolist(), strict=True):
                    found.compare(computed, Fraction(right))


def _sums_of_products(found: _Found, device: str, rng: np.random.Generator) -> None:
    """Sums of k products: one rounding for each product and each addition, of the size of all terms together."""
    kind = DTYPES[found.dtype]
    for k, columns in SHAPES:
        for batch in BATCHES:
            X = torch.tensor(rng.normal(size=(batch, k)) * 2.0 ** rng.integers(-8, 8, (batch, k))).to(kind)
            A = torch.tensor(rng.normal(size=(k, columns)) * 2.0 ** rng.integers(-8, 8, (k, columns))).to(kind)
            Y = (X.to(device) @ A.to(device)).cpu()
            for i, j in {(0, 0), (batch - 1, columns - 1), (batch // 2, columns // 2)}:
                terms = [Fraction(x) * Fraction(y) for x, y in zip(X[i].tolist(), A[:, j].tolist(), strict=True)]
                found.compare(float(Y[i, j]), sum(terms, Fraction(0)), sum(map(abs, terms), Fraction(0)), 2 * k)


def _magnitude_bits(x: Tensor) -> Tensor:
    """The numbers without their signs as whole numbers: in floats, 0 could not be told from what is taken for it."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.contiguous().view(whole) & torch.iinfo(whole).max


def _is_subnormal(x: Tensor) -> Tensor:
    bits = _magnitude_bits(x)
    return (bits > 0) & (bits < 2 ** (FORMATS[str(x.dtype).removeprefix("torch.")].bits - 1))


def _every_bfloat16() -> Tensor:
    numbers = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    return numbers[numbers.isfinite()]


def _around_the_ends(dtype: str) -> Tensor:
    """Subnormal numbers, the smallest normal ones, 1 and the largest, with their neighbours and signs."""
    kind, format = DTYPES[dtype], FORMATS[dtype]
    ends = [2.0**format.lowest, format.smallest / 3, format.smallest, 1.0, torch.finfo(kind).max]
    x = torch.tensor(ends, dtype=torch.float64).to(kind)
    zero, top = torch.zeros_like(x), torch.full_like(x, torch.finfo(kind).max)
    near = torch.cat([x, torch.nextafter(x, zero), torch.nextafter(x, top)])
    return torch.cat([near, -near])


def _exponentials(dtype: str, short: bool, device: str, rng: np.random.Generator, reach: float) -> _Found:
    """exp as it is, and inside softmax along both axes and torch's fused attention: the weight of a key beside one of
    score 0. The model gives it an exponential, a sum of two and a division; what is left is the exponential's."""
    found, kind = _Found(dtype), DTYPES[dtype]
    count = SHORT if short else WHOLE
    t = -torch.tensor(np.concatenate([rng.uniform(0, reach, count), np.geomspace(2.0**-20, reach, 64)])).to(kind)
    for x, y in zip(t.tolist(), torch.exp(t.to(device)).tolist(), strict=True):
        found.compare(y, _rational(arb(x).exp()))
    if reach == NEAR:
        return found
    scores = torch.stack([t, torch.zeros_like(t)], -1).to(device)
    weights = [torch.softmax(scores, -1)[:, 0], torch.softmax(scores.T.contiguous(), 0)[0]]
    if dtype != "bfloat16":
        one_hot = torch.eye(2, dtype=kind, device=device)[None, None]  # keys and values: scores are the queries
        weights.append(scaled_dot_product_attention(scores[None, None], one_hot, one_hot, scale=1.0)[0, 0, :, 0])
    # beside a sum and a division the weight has the error of two exponentials, e^t and e^0
    spare = TABLE["division", dtype, "dot"].units + TABLE["sum", dtype, "dot"].units + 1
    for weight in weights:
        for x, y in zip(t.tolist(), weight.tolist(), strict=True):
            if x > math.log(SMALLEST[dtype]):
                exact = _rational(1 / (1 + (-arb(x)).exp()))
                off = abs(Fraction(y) / exact - 1) / Fraction(UNIT[dtype]) - spare
                found.units, found.results = max(found.units, float(off) / 2), found.results + 1
    return found


def _rational(x: arb) -> Fraction:
    man, exp = x.mid().man_exp()
    return Fraction(int(man)) * Fraction(2) ** int(exp)
