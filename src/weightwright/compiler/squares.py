"""Squares that are accurate also where they are small, for variances in few bits: `heads.graded_square`, proven."""

from __future__ import annotations

import numpy as np

from weightwright.box import Box
from weightwright.certificates.claims import rounded_up
from weightwright.certificates.graphs import SQUARE
from weightwright.compiler.certify import certified, checked
from weightwright.compiler.task import make_task, well_formed
from weightwright.errors import ToleranceError
from weightwright.heads.graded_square import graded_square
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES


def relative_square(reach: float, tol: float, dtype: str = "float32") -> AttentionNetwork:
    """x^2 within tol for |x| <= reach, with an error that falls with x^2 where x is small.

    Proven is tol alone; `heads.graded_square` says what is measured. Raises ToleranceError with the bound that there is
    if it is above tol. Keys: 70 in two heads.

    >>> import torch
    >>> net = relative_square(1.0, 1e-5)
    >>> net.certificate.status, abs(net(torch.tensor([[1e-3]])).item() - 1e-6) < 1e-11
    ('PROVEN', True)
    """
    well_formed(SQUARE, tol)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, not {dtype!r}")
    design = graded_square(reach, dtype)
    task = make_task(SQUARE, Box.of((-reach, reach)), tol, dtype, 0.0, False, None)
    attempt = certified(task, design, "taylor", np.zeros(0), np.zeros((0, 2)))
    bound = None if attempt is None else attempt[1].bound
    if attempt is None or bound is None or bound > tol:
        found = "no error bound could be proven" if bound is None else f"the bound is {rounded_up(bound)}"
        raise ToleranceError(f"{task.where}: tol={tol:g} cannot be proven by graded keys: {found}", best=bound)
    certificate = checked(*attempt)
    if certificate is None:
        raise ToleranceError(f"{task.where}: tol={tol:g} cannot be proven by graded keys: the checker disagrees")
    return AttentionNetwork(attempt[0], certificate)
