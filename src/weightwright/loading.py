"""Reads a saved network: checked by the independent checker, or as it says of itself."""

from __future__ import annotations

import os
from typing import Unpack

from weightwright.claims.files import read
from weightwright.errors import MalformedCertificateError
from weightwright.limits import LimitOptions, Limits, limited
from weightwright.runtime.module import AttentionNetwork, OnDomain


def load(
    path: str | os.PathLike[str], verify: bool = True, on_domain: OnDomain = "raise", **limits: Unpack[LimitOptions]
) -> AttentionNetwork:
    """Load a saved network. One whose error was only measured has nothing to check: its status is MEASURED, and `why`
    says that the file says so.

    verify: True runs the independent checker (CertificateError if it disagrees); False needs no python-flint and leaves
    the certificate's status UNCHECKED.
    limits: seconds, megabytes, tokens and boxes that the file may cost, as for `ww.check`; BudgetError beyond them.
    """
    with limited(path, Limits(**limits)):
        network, certificate = read(path)
        if verify and certificate is not None and certificate.measured is None:
            from weightwright.checker.check import prove  # needs python-flint

            certificate = prove(path, network, certificate)
        try:
            return AttentionNetwork(network, certificate, on_domain)
        except (LookupError, ArithmeticError, TypeError, RuntimeError) as error:  # what no check has looked at
            raise MalformedCertificateError(f"{path}: the certificate does not fit its network ({error})") from error
