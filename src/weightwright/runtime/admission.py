"""What a network with a certificate may be run on: inputs inside the domain, and torch computing in all its bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weightwright.errors import CertificateError, DomainError

#: A processor that takes subnormal numbers for 0 makes this 0 in a product.
_SUBNORMAL = 2.0**-1074


def inward(end: Tensor, dtype: torch.dtype, towards: float) -> Tensor:
    """The number of the dtype next to the end, inside the domain."""
    near = end.to(dtype)
    outside = near.double() < end if towards > 0 else near.double() > end
    return torch.where(outside, torch.nextafter(near, torch.full_like(near, towards)), near)


def refuse_reduced_precision(x: Tensor) -> None:
    """Settings under which torch computes in fewer bits than the certificate is about."""
    if _SUBNORMAL * 1.0 == 0.0:
        raise CertificateError(
            "torch.set_flush_denormal(True) is on: subnormal numbers are taken for 0, which no certificate covers"
        )
    if torch.is_autocast_enabled(x.device.type):
        raise CertificateError("autocast is on: the network would not run in the dtype that its certificate is about")
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


def outside_of(x: Tensor, outside: Tensor, lo: Tensor, hi: Tensor, names: tuple[str, ...], clamps: bool) -> DomainError:
    """Name the first offending entry: which token, which feature, by how much. clamps: whether that would help."""
    index = tuple(int(i) for i in outside.nonzero()[0])
    value, feature = float(x[index]), index[-1]
    low, high = (float(end.expand(x.shape[-2:])[index[-2:]]) for end in (lo, hi))
    excess = low - value if value < low else value - high
    passes = "'clamp' or 'ignore'" if clamps and not np.isnan(value) else "'ignore'"
    by = f", off by {excess:.3g}" if np.isfinite(excess) else ""
    return DomainError(
        f"{names[feature]!r} of token {index[-2]} is {value!r}, outside [{low!r}, {high!r}]{by}"
        f" ({int(outside.sum())} such inputs); on_domain={passes} lets it pass"
    )
