"""What this folder registers with the library."""

from __future__ import annotations

from weightwright.extensions import Extension

_EVALUATION = {
    "Curves": "context_curve",
    "DescentLearner": "prefix_learners",
    "HookedLearner": "prefix_learners",
    "LeastSquaresLearner": "prefix_learners",
    "Likeness": "comparison_metrics",
    "LinearAttentionLearner": "linear_attention",
    "NetworkLearner": "prefix_learners",
    "RegressionTask": "regression_tasks",
    "RidgeLearner": "prefix_learners",
    "compare": "comparison_metrics",
    "curve": "context_curve",
    "query_gradients": "comparison_metrics",
}

EXTENSION = Extension(
    modules={"constructions": "weightwright.papers.theorems.constructions"},
    names={"incontext": {name: f"weightwright.papers.evaluation.{module}" for name, module in _EVALUATION.items()}},
    hooks={"commands": ("weightwright.papers.commands:COMMANDS",)},
)
