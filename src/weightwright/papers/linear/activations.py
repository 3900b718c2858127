"""UA-13: ReLU, hard tanh and clipped ReLU of w_i . x_i + t_i, as special cases of truncated linear models.

Source: universal approximation paper, Examples H.1 to H.3. ReLU is Range[0, b] with b at or above everything that
w_i . x_i + t_i can be on the domain, since on a bounded domain b need not be infinite; hard tanh is Range[-1, 1];
clipped ReLU is Range[0, b].
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

from weightwright.box import Box
from weightwright.papers.kit.arguments import positive
from weightwright.papers.kit.models import Models, read_models
from weightwright.papers.linear.one_head import truncated_linear
from weightwright.runtime import AttentionNetwork


def relu(
    w: npt.ArrayLike, t: npt.ArrayLike, domain: Box | tuple[float, float], *, dtype: str = "float64", **parameters: Any
) -> AttentionNetwork:
    """max(w_i . x_i + t_i, 0); parameters as in `truncated_linear`.

    >>> relu([[1.0, 1.0]], [0.0], (-1, 1), p=16).certificate.status
    'PROVEN'
    """
    asked = Models(*read_models(w, t, domain), dtype)
    highest = asked.ends[1]
    if highest <= 0:
        raise ValueError(f"w . x + t is at most {highest:g} on the domain: its relu is 0 everywhere")
    spectral = parameters.get("method") == "spectral"
    b = 1.25 * highest if spectral else highest  # a fit of a kink at the very end would be poor
    return _as(truncated_linear(asked.w, asked.t, 0.0, b, asked.box, dtype=dtype, **parameters))


def hard_tanh(
    w: npt.ArrayLike, t: npt.ArrayLike, domain: Box | tuple[float, float], **parameters: Any
) -> AttentionNetwork:
    """w_i . x_i + t_i cut at -1 and 1; parameters as in `truncated_linear`.

    >>> hard_tanh([[2.0, 1.0]], [0.0], (-1, 1), p=16).certificate.status
    'PROVEN'
    """
    return _as(truncated_linear(w, t, -1.0, 1.0, domain, **parameters))


def clipped_relu(
    w: npt.ArrayLike, t: npt.ArrayLike, b: float, domain: Box | tuple[float, float], **parameters: Any
) -> AttentionNetwork:
    """max(0, min(w_i . x_i + t_i, b)); parameters as in `truncated_linear`.

    >>> clipped_relu([[2.0, 1.0]], [0.0], 2.0, (-1, 1), p=16).certificate.status
    'PROVEN'
    """
    positive("b", b)
    return _as(truncated_linear(w, t, 0.0, float(b), domain, **parameters))


def _as(net: AttentionNetwork) -> AttentionNetwork:
    net.about = dataclasses.replace(net.about, id="UA-13")
    return net
