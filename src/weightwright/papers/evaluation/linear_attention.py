"""Gradient descent by layers of linear attention: the construction of von Oswald et al. (2023), from its formula.

Tokens are e_j = (x_j, y_j), the query is (x, 0). A layer of linear attention, which has no softmax, is

    e_j <- e_j + P sum over i of (W_V e_i) (W_K e_i . W_Q e_j),

the sum being over the examples. With W_K = W_Q = diag(1, ..., 1, 0), W_V = diag(0, ..., 0, -1) and P = step/examples it
takes y_j to y_j - step/examples sum of y_i (x_i . x_j): what is left of the target after a step of descent from w = 0.
The next layer does the same to what is left, so k layers are k steps, and -1 times the query's last number is w_k.x.
"""

from __future__ import annotations

import torch

from weightwright.numbers import counted
from weightwright.papers.evaluation.prefix_learners import DescentLearner


class LinearAttentionLearner(DescentLearner):
    """Steps of descent as layers of linear attention with the same weights: exact but for rounding, and no softmax.

    steps: layers, each a step.
    step: their size; None: as `DescentLearner`.
    examples: what sums are divided by; None: the points of the prompt.
    """

    def __init__(self, steps: int, step: float | None = None, examples: int | None = None) -> None:
        super().__init__(steps, step, examples)
        self.name = f"linear attention, {counted(steps, 'layer')}"

    def matrices(self, features: int, points: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, float]:
        """W_Q, which is W_K, W_V and P.

        points: those of the whole prompt.
        """
        step, examples = self.sizes(features, points)
        W_Q = torch.diag(torch.tensor([1.0] * features + [0.0], dtype=dtype))
        W_V = torch.diag(torch.tensor([0.0] * features + [-1.0], dtype=dtype))
        return W_Q, W_V, step / examples

    def _predict(self, X: torch.Tensor, y: torch.Tensor, query: torch.Tensor, points: int) -> torch.Tensor:
        W_Q, W_V, P = self.matrices(X.shape[2], points, X.dtype)
        rows = torch.cat([X, query.unsqueeze(1)], dim=1)
        targets = torch.cat([y, torch.zeros_like(query[:, :1])], dim=1)
        tokens = torch.cat([rows, targets.unsqueeze(2)], dim=2)  # (B, i + 1, d + 1)
        for _ in range(self.steps):
            seen = tokens[:, :-1]  # the examples; the query is no key
            weights = (tokens @ W_Q) @ (seen @ W_Q).mT  # (B, i + 1, i)
            tokens = tokens + P * (weights @ (seen @ W_V))
        return -tokens[:, -1, -1]
