"""`net.confirm`: the function that a network was built from, as it is now, against the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Confirms:
    """The part of a network's module that knows functions."""

    def confirm(self, function: Callable[..., Any], inputs: int = 256, seed: int = 0) -> float:
        """Compare the network with its function, as it is now, and return the largest difference that was found.

        NotRepeatable with an input where they differ by more than the bound: the function has changed since the network
        was built, or is another one; also where the function fails, returns complex numbers, or is finite at fewer than
        half of the tokens that were tried. WeightwrightError where nothing is proven of the outputs. Inputs that no
        claim is about are left out (dead zones), and so are outputs of the function that are not finite.

        function: as `ww.compile` or `ww.approximate` took it; of a network of a formula any function of torch tensors.
        inputs: how many are drawn from the domain; its ends and corners are among them.
        seed: of the inputs that are drawn.

        >>> import torch, weightwright as ww
        >>> net = ww.compile(torch.tanh, (-1, 1), tol=1e-6, features=1)
        >>> net.confirm(torch.tanh) <= net.certificate.bound
        True
        >>> net.confirm(torch.sin)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weightwright.errors.NotRepeatable: sin is not what the network computes: ...
        """
        from weightwright.adversary.comparing import compare_with_function

        return compare_with_function(self, function, inputs, seed)  # type: ignore[arg-type]
