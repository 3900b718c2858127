"""Linear regression as prompts of random numbers: what learners in context are usually tried on.

One prompt is a weight vector w of its own and examples x_i with y_i = w.x_i (+ noise). Garg et al. (2022) draw w and
x_i from the standard normal distribution, and count the squared error of a prediction divided by the features d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class RegressionTask:
    """Prompts of linear regression, drawn anew at every call of `sample`.

    features: numbers of an example, d.
    points: examples of a prompt; the prediction for the last one is made from all others.
    noise: standard deviation of what is added to every target; 0: targets are w.x exactly.
    scale: what every example is multiplied by; 1: standard normals.
    nonzero: how many numbers of w are not 0; None: all.

    >>> xs, ys = RegressionTask(features=5, points=11).sample(3, seed=0)
    >>> tuple(xs.shape), tuple(ys.shape)
    ((3, 11, 5), (3, 11))
    """

    features: int
    points: int
    noise: float = 0.0
    scale: float = 1.0
    nonzero: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("features", 1), ("points", 1)):
            _whole(name, getattr(self, name), least, None)
        if self.nonzero is not None:
            _whole("nonzero", self.nonzero, 1, self.features)
        if not (_is_number(self.noise) and self.noise >= 0):
            raise ValueError(f"noise must be a finite number of at least 0, not {self.noise!r}")
        if not (_is_number(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a finite number above 0, not {self.scale!r}")

    @property
    def name(self) -> str:
        """In words: "d = 5, noise 0.5"."""
        parts = [f"d = {self.features}"]
        parts += [f"noise {self.noise:g}"] if self.noise else []
        parts += [f"inputs times {self.scale:g}"] if self.scale != 1 else []
        parts += [f"{self.nonzero} numbers of w not 0"] if self.nonzero is not None else []
        return ", ".join(parts)

    def sample(
        self, prompts: int, seed: int | torch.Generator, dtype: torch.dtype = torch.float64
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(prompts, points, d) examples and (prompts, points) targets.

        prompts: how many are drawn.
        seed: a whole number: the same prompts at every call; a torch.Generator: the next ones.
        dtype: of both tensors; drawn in float64 and rounded.
        """
        _whole("prompts", prompts, 1, None)
        rng = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        w, xs = normal(prompts, self.features, 1), self.scale * normal(prompts, self.points, self.features)
        if self.nonzero is not None:
            order = torch.rand(prompts, self.features, generator=rng, dtype=torch.float64).argsort(dim=1)
            w = w * (order < self.nonzero).unsqueeze(2)
        ys = (xs @ w).squeeze(2) + self.noise * normal(prompts, self.points)
        return xs.to(dtype), ys.to(dtype)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(name: str, value: Any, least: int, most: int | None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        end = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name} must be a whole number of at least {least}{end}, not {value!r}")
