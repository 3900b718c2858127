"""What a function *is*: expressions as data, parsed from text. No numbers are computed here.

The prover, the checker and the head designers each give these expressions a meaning of their own.
"""

from weightwright.expressions.derivative import differentiate
from weightwright.expressions.nodes import (
    OPERATIONS,
    Apply,
    Expression,
    Number,
    Variable,
    fold,
    shortened,
    substitute,
    to_text,
)
from weightwright.expressions.parser import parse

__all__ = [
    "OPERATIONS",
    "Apply",
    "Expression",
    "Number",
    "Variable",
    "differentiate",
    "fold",
    "parse",
    "shortened",
    "substitute",
    "to_text",
]
