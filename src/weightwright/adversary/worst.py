"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Worst:
    """The worst input that was found, its error rounded up, and how much was tried."""

    x: float | tuple[float, ...]  # a number for networks of one input; else all inputs, token by token
    error: float
    bound: float
    inputs: int
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether the error exceeds the bound: then something is wrong with the proof, or with the machine."""
        return self.error > self.bound
