"""How wrong a network is, as far as one can find out by trying. What is found here is an error, never a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.errors import WeightwrightError
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

_KEPT = 8  # worst inputs whose surroundings are searched
_AROUND = 40  # new inputs around each of them, in every round
_ROUNDS = 6  # the reach falls from a tenth of the domain to 1e-4 of it
_SCORES, _INPUTS = 2**22, 512  # taken at a time, so that what a network of many heads writes stays in the cache


@dataclass(frozen=True)
class FoundError:
    """The largest error in the infinity norm that was found, where, and among how many inputs; and the largest number
    of the target that was met, beside which a bound may be vacuous."""

    error: float
    at: Floats  # (n, d)
    inputs: int
    size: float


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo estimate of an L_p norm of the error over the domain, with a 99% interval.

    The interval is the normal one: it says little where large errors are so rare that no sample met one.
    """

    error: float
    lo: float
    hi: float
    inputs: int


def measure(net: AttentionNetwork, count: int = 2048, seed: int = 0) -> FoundError:
    """Look for the largest error: where the construction expects it, then around the worst, closer every time.

    Uses `net.about.probes` and `net.about.reference`; where the reference is NaN nothing is claimed and nothing
    counted. Inputs are numbers of the network's dtype inside the certificate's domain.
    """
    rng = np.random.default_rng(seed)
    X = taken(net, net.about.probes(rng, count))
    errors = worst_errors(net, X)
    if np.isneginf(errors).all():
        raise WeightwrightError(f"{net.about.id}: the reference claims nothing at any of {len(X)} inputs")
    tried, best, at = len(X), float(errors.max()), X[int(errors.argmax())]
    size = max(float(np.nanmax(np.abs(net.about.reference(part)), initial=0.0)) for part in _pieces(net, X))
    lo, hi = _extent(net, X)
    for step in range(_ROUNDS):
        top = np.argsort(-errors, kind="stable")[:_KEPT]
        centres = X[top]
        moved = rng.uniform(-1, 1, (_AROUND, *centres.shape)) * (hi - lo) * 0.1 * 4.0**-step
        moved[::2] *= rng.random(moved[::2].shape) < 1.5 / max(moved[0, 0].size, 1)  # half of them: about one entry
        X = np.concatenate([centres, taken(net, (centres + moved).reshape(-1, *centres.shape[1:]))])
        errors = np.concatenate([errors[top], worst_errors(net, X[len(top) :])])
        tried += len(X) - len(top)
        if errors.max() > best:
            best, at = float(errors.max()), X[int(errors.argmax())]
    return FoundError(best, at, tried, size)


def norm_of(net: AttentionNetwork) -> float:
    """The p of the L_p norm that the certificate is about; infinity for the largest error anywhere."""
    return float(getattr(net.certificate, "norm", math.inf))


def pointwise_bound(net: AttentionNetwork) -> float | None:
    """What is proven of every single input; None where nothing is. Certificates in L_p leave it to `about.bounds`."""
    said = net.certificate
    if said is None or said.measured is not None:
        return None
    bound = said.bound if math.isinf(norm_of(net)) else net.about.bounds.get("everywhere", math.inf)
    return float(bound) if math.isfinite(bound) else None


def estimate(net: AttentionNetwork, power: float = 1, count: int = 20_000, seed: int = 0) -> Estimate:
    """(integral over the domain of the sum of |error|^power over the outputs)^(1/power), from uniform inputs."""
    if net.certificate is None:
        raise WeightwrightError("an L_p norm needs a domain to integrate over, which the certificate has")
    lo, hi = domain_ends(net)
    X = taken(net, np.random.default_rng(seed).uniform(lo, hi, (count, *lo.shape)))
    sums = np.concatenate([(errors**power).sum(axis=(1, 2)) for errors in _errors(net, X)])
    volume = float(np.prod(hi - lo))
    mean, slack = volume * float(sums.mean()), volume * 2.576 * float(sums.std(ddof=1)) / count**0.5
    low, high = max(mean - slack, 0.0), mean + slack
    return Estimate(mean ** (1 / power), low ** (1 / power), high ** (1 / power), count)


def worst_errors(net: AttentionNetwork, X: Floats) -> Floats:
    """The error of each input in the infinity norm; -infinity where the reference claims nothing. (count,)"""
    if not len(X):
        return np.zeros(0)
    parts = []
    for errors in _errors(net, X):
        largest = np.nan_to_num(errors, nan=-np.inf, posinf=np.inf).max(axis=(1, 2))
        parts.append(np.asarray(largest, dtype=np.float64))
    return np.concatenate(parts)


def outputs(net: AttentionNetwork, X: Floats) -> Floats:
    """What the network returns for inputs of its dtype, as float64; (count, n, outputs). Also where it would refuse to
    answer: the reference says where nothing is claimed."""
    asked = net.on_domain
    try:
        net.on_domain = "ignore"
        with torch.no_grad():
            y: Floats = net(torch.tensor(X, dtype=net.dtype)).double().cpu().numpy()
    finally:
        net.on_domain = asked
    return y


def taken(net: AttentionNetwork, X: Floats) -> Floats:
    """The inputs as numbers of the network's dtype, inside the certificate's domain."""
    if net.certificate is not None:
        lo, hi = net.certificate.domain.lo, net.certificate.domain.hi
        X = np.clip(np.where(np.isnan(X), lo, X), lo, hi)
    rounded: Floats = torch.tensor(X, dtype=net.dtype).double().numpy()
    return rounded if net.certificate is None else np.clip(rounded, lo, hi)


def _errors(net: AttentionNetwork, X: Floats) -> Iterator[Floats]:
    """|network - reference| in pieces that fit in memory; infinite where the network returns no number."""
    for part in _pieces(net, X):
        reference = net.about.reference(part)
        with _one_thread():
            y = outputs(net, part)
        errors = np.abs(np.where(np.isfinite(y), y, np.inf) - reference)
        yield np.where(np.isnan(reference), np.nan, errors)


def _pieces(net: AttentionNetwork, X: Floats) -> list[Floats]:
    """The inputs in pieces that fit in memory, none of them empty."""
    keys = len(net.network.registers) + X.shape[1]
    at_once = max(1, min(_INPUTS, _SCORES // (X.shape[1] * keys)))
    return [part for part in np.array_split(X, -(-len(X) // at_once)) if len(part)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Many small products: more threads than one cost more than they bring, by far where cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def domain_ends(net: AttentionNetwork) -> tuple[Floats, Floats]:
    """Ends of the domain for every token and feature, (n, d) each."""
    assert net.certificate is not None, "a network without a certificate has no domain"
    shape = (net.network.tokens or 1, len(net.network.inputs))
    return np.broadcast_to(net.certificate.domain.lo, shape), np.broadcast_to(net.certificate.domain.hi, shape)


def _extent(net: AttentionNetwork, X: Floats) -> tuple[Floats, Floats]:
    """The domain, or what the inputs span where there is none."""
    if net.certificate is None:
        return X.min(axis=0), X.max(axis=0)
    return net.certificate.domain.lo, net.certificate.domain.hi
