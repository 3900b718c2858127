"""What a search found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weightwright.claims.certificate import round_up
from weightwright.claims.scope import OF_SUBJECT, Subject
from weightwright.numbers import counted


@dataclass(frozen=True)
class Worst:
    """The worst input that was found, its error rounded up, and how much was tried."""

    x: float | tuple[float, ...]  # a number for networks of one input; else all inputs, token by token
    error: float  # at that input, rounded up
    bound: float  # the certificate's; infinite where nothing is proven
    inputs: int  # how many were tried
    seconds: float  # that it took
    subject: Subject = "output"  # what the error and the bound are about

    def __repr__(self) -> str:
        """One line; of many inputs how many there are."""
        at = f"x = {self.x:.6g}" if isinstance(self.x, float) else counted(len(self.x), "number")
        of = OF_SUBJECT[self.subject]
        bound = f"bound {round_up(self.bound)}{of}" if self.bound < math.inf else "no bound"
        return f"Worst(error {round_up(self.error)} at {at}, {bound}, {self.inputs:,} inputs in {self.seconds:.2g} s)"

    @property
    def violated(self) -> bool:
        """Whether the error exceeds the bound: then something is wrong with the proof, or with the machine."""
        return self.error > self.bound
