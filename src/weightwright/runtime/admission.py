"""What a network with a certificate may be run on: inputs inside the domain, and torch computing in all its bits."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.errors import CertificateError, DomainError
from weightwright.numbers import counted
from weightwright.runtime.weights import is_transformed

#: A processor that takes subnormal numbers for 0 makes this 0 in a product.
_SUBNORMAL = 2.0**-1074
#: Numbers that torch gives to one thread at least, when it shares out an operation.
_SHARE = 2**15
#: Numbers of an input from which on it takes far longer than a look at the threads, and there is one at every call.
_MANY = 2**20
_AUTOCAST = "autocast is on: the network would not run in the dtype that its certificate is about"
#: `count`: torch's threads when those of the calling thread were looked at last, and did not flush.
_LOOKED = threading.local()


def refuse_misfit(x: Tensor, features: int, tokens: int | None) -> None:
    """TypeError or ValueError for what is no tensor of so many tokens and features."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch tensor, not {type(x).__name__}; torch.tensor(x) makes one")
    if x.ndim < 2 or x.shape[-1] != features:
        raise misshapen(x, tokens, features)
    if tokens is not None and x.shape[-2] != tokens:
        raise ValueError(f"x must have {tokens} tokens, not {x.shape[-2]}")


@dataclass(frozen=True, eq=False)
class Domain:
    """Where inputs must lie. clamps: whether "clamp" would be allowed, for errors to say."""

    lo: Tensor  # (features,) or (tokens, features), in float64
    hi: Tensor
    zones: Tensor  # (k, 2), in float64: open intervals of a single feature in which nothing is claimed
    names: tuple[str, ...]
    clamps: bool

    @cached_property
    def core(self) -> tuple[float, float]:
        """Between the largest lower end and the smallest upper end every number is inside."""
        return float(self.lo.max()), float(self.hi.min())

    @cached_property
    def is_core(self) -> bool:
        """Whether all features have the same ends."""
        return bool((self.lo == self.core[0]).all() and (self.hi == self.core[1]).all())

    def admit(self, x: Tensor, on_domain: str) -> Tensor:
        """The input inside the domain and outside the dead zones, or an error that names what is not. Only the ends of
        the domain are not compared here with the numbers of a GPU: `look` does that, without waiting.

        Where torch traces the module, or maps it over a batch, the numbers are looked at in an operation of our own."""
        admitted = self._bounded(x, on_domain)
        if on_domain != "ignore" and not torch.compiler.is_compiling() and not is_transformed(x):
            self._refuse_dead(admitted)
        return admitted

    def _bounded(self, x: Tensor, on_domain: str) -> Tensor:
        """What `admit` returns, with dead zones not looked at yet."""
        compiling = torch.compiler.is_compiling()
        if compiling and torch.is_autocast_enabled(x.device.type):  # which is over when the compiled graph runs
            raise CertificateError(_AUTOCAST)
        lo, hi = self.lo, self.hi
        if compiling:
            return _admit_later(x, *self._on(x.device), list(self.names), on_domain, self.clamps)
        refuse_reduced_precision(x)
        if on_domain == "ignore":
            return x
        mapped = is_transformed(x)
        if mapped:
            _admit_later(x.detach(), *self._on(x.device), list(self.names), on_domain, self.clamps)
        if on_domain == "clamp" and (mapped or not x.isnan().any()):
            ends = inward(lo, x.dtype, math.inf), inward(hi, x.dtype, -math.inf)
            return x.clamp(*(end.to(x.device) for end in ends))
        if not mapped and (not x.is_cuda or on_domain == "clamp"):
            self.refuse(x, self.look(x))
        return x

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        return self.lo.to(device), self.hi.to(device), self.zones.to(device)

    def _refuse_dead(self, x: Tensor) -> None:
        """DomainError that names the first number in a dead zone."""
        if not len(self.zones):
            return
        starts, ends = self.zones.to(x.device).unbind(1)
        dead = ((x.double() > starts) & (x.double() < ends)).detach()  # (..., tokens, k)
        if bool(dead.any()):
            *place, zone = (int(i) for i in dead.nonzero()[0])
            lo, hi = self.zones[zone].tolist()
            raise DomainError(
                f"{self.names[0]!r} of token {place[-1]} is {float(x[(*place, 0)])!r}, in the dead zone between {lo!r}"
                f" and {hi!r}, where nothing is claimed ({counted(int(dead.any(-1).sum()), 'such input')});"
                " on_domain='ignore' lets it pass"
            )

    def look(self, x: Tensor) -> Tensor | None:
        """Whether any number lies outside, or is none: one pass over x, and nobody waits for a GPU's answer."""
        if not x.numel():
            return None
        x = x.detach()
        if self.is_core or not x.is_cuda:
            least, most = torch.aminmax(x)  # NaN stays NaN
            inside = (least >= self.core[0]) & (most <= self.core[1])
            if self.is_core or bool(inside):
                return ~inside
        return ~((x >= self.lo.to(x.device)) & (x <= self.hi.to(x.device))).all()

    def refuse(self, x: Tensor, outside: Tensor | None) -> None:
        """DomainError if it is so; here a GPU is waited for. What a kernel marked in the host's memory is cleared."""
        marked = outside is not None and x.is_cuda and not outside.is_cuda
        if marked:
            torch.cuda.current_stream(x.device).synchronize()
        if outside is not None and bool(outside):
            if marked:
                outside.zero_()
            raise outside_of(x, self.lo.to(x.device), self.hi.to(x.device), self.names, self.clamps)


#: One operation, as far as torch.compile and torch.func see: the errors are raised by the graph that they make, too.
@torch.library.custom_op(
    "weightwright::admit",
    mutates_args=(),
    schema="(Tensor x, Tensor lo, Tensor hi, Tensor zones, str[] names, str on_domain, bool clamps) -> Tensor",
)
def _admit_later(
    x: Tensor, lo: Tensor, hi: Tensor, zones: Tensor, names: list[str], on_domain: str, clamps: bool
) -> Tensor:
    domain = Domain(lo.cpu(), hi.cpu(), zones.cpu(), tuple(names), clamps)
    admitted = domain.admit(x, on_domain)
    if admitted is not x:
        return admitted
    if x.is_cuda and on_domain == "raise":
        domain.refuse(x, domain.look(x))
    return x.clone()


@_admit_later.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


@_admit_later.register_vmap
def _(info: Any, dims: tuple[int | None, ...], x: Tensor, *rest: Any) -> tuple[Tensor, int]:
    return _admit_later(x.movedim(dims[0] or 0, 0), *rest), 0


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, lo, hi, *_, on_domain, _ = inputs
    ctx.clamped = on_domain == "clamp"
    ctx.save_for_backward(*((x, lo, hi) if ctx.clamped else ()))


def _give_back(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """What was clamped has no gradient."""
    if ctx.clamped:
        x, lo, hi = ctx.saved_tensors
        gradient = gradient * ((x >= lo) & (x <= hi))
    return gradient, None, None, None, None, None, None


_admit_later.register_autograd(_give_back, setup_context=_keep_inputs)


@torch.library.custom_op("weightwright::refuse_uncompared", mutates_args=(), schema="(Tensor x, str zones) -> Tensor")
def refuse_uncompared(x: Tensor, zones: str) -> Tensor:
    """DomainError: what torch.compile makes of a network cannot look at arguments inside. As an operation of our own it
    raises when the graph runs: dynamo makes an error of its own of what is raised while it traces."""
    raise DomainError(
        f"the certificate claims nothing where an argument is in a dead zone ({zones}), and the numbers cannot be"
        " compared with it under torch.compile or torch.func; on_domain='ignore' runs there without a comparison"
    )


@refuse_uncompared.register_fake
def _(x: Tensor, zones: str) -> Tensor:
    return torch.empty_like(x)


@refuse_uncompared.register_vmap
def _(info: Any, dims: tuple[int | None, ...], x: Tensor, zones: str) -> tuple[Tensor, int]:
    return refuse_uncompared(x.movedim(dims[0] or 0, 0), zones), 0


def inward(end: Tensor, dtype: torch.dtype, towards: float) -> Tensor:
    """The number of the dtype next to the end, inside the domain."""
    near = end.to(dtype)
    outside = near.double() < end if towards > 0 else near.double() > end
    return torch.where(outside, torch.nextafter(near, torch.full_like(near, towards)), near)


def misshapen(x: Tensor, tokens: int | None, features: int) -> ValueError:
    """What shape was expected; of a plain list of numbers, how to give it that shape."""
    lacks_an_axis = x.ndim < 2 and x.numel() > 0 and x.numel() % features == 0
    fits = lacks_an_axis and tokens in (None, x.numel() // features)
    instead = f"; x.reshape(-1, {features}) has it" if fits else ""
    return ValueError(f"x must have shape (..., tokens, {features}), not {tuple(x.shape)}{instead}")


def refuse_reduced_precision(x: Tensor) -> None:
    """Settings under which torch computes in fewer bits than the certificate is about."""
    if _SUBNORMAL * 1.0 == 0.0:
        raise CertificateError(
            "torch.set_flush_denormal(True) is on: subnormal numbers are taken for 0, which no certificate covers"
        )
    if x.device.type == "cpu" and _threads_flush(x.numel()):
        raise CertificateError(
            "torch.set_flush_denormal(True) was on when torch started its threads, and they still take subnormal"
            " numbers for 0, which no certificate covers; torch.set_num_threads(1) does without them"
        )
    if torch.is_autocast_enabled(x.device.type):
        raise CertificateError(_AUTOCAST)
    if x.dtype != torch.float32:
        return
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError as error:  # several of torch's settings contradict each other
        raise CertificateError(f"torch does not say in how many bits it multiplies float32: {error}") from error
    if precision != "highest":
        raise CertificateError(
            f"torch.set_float32_matmul_precision({precision!r}) lets products of float32 run in fewer bits than the"
            " certificate is about; set it to 'highest'"
        )


def _threads_flush(numbers: int) -> bool:
    """Whether one of the threads that torch shares work out to takes subnormal numbers for 0: every thread has a
    setting of its own, which it has from the one that started it."""
    count = torch.get_num_threads()
    if count == 1 or (count == getattr(_LOOKED, "count", 1) and numbers < _MANY):
        return False
    shared = torch.ones(count * _SHARE, dtype=torch.float64, device="cpu")
    shared[:: _SHARE // 2] = _SUBNORMAL
    if (shared * 1.0)[:: _SHARE // 2].eq(0).any():
        return True
    _LOOKED.count = count
    return False


def outside_of(x: Tensor, lo: Tensor, hi: Tensor, names: tuple[str, ...], clamps: bool) -> DomainError:
    """Name the first offending entry: which token, which feature, by how much. clamps: whether that would help."""
    outside = ~((x >= lo) & (x <= hi))
    index = tuple(int(i) for i in outside.nonzero()[0])
    value, feature = float(x[index]), index[-1]
    low, high = (float(end.expand(x.shape[-2:])[index[-2:]]) for end in (lo, hi))
    excess = low - value if value < low else value - high
    passes = "'clamp' or 'ignore'" if clamps and not np.isnan(value) else "'ignore'"
    by = f", off by {excess:.3g}" if np.isfinite(excess) else ""
    return DomainError(
        f"{names[feature]!r} of token {index[-2]} is {value!r}, outside [{low!r}, {high!r}]{by}"
        f" ({counted(int(outside.sum()), 'such input')}); on_domain={passes} lets it pass"
    )
