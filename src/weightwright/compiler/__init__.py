"""From what users write to networks with certificates."""

from weightwright.compiler.approximate import approximate
from weightwright.compiler.compile import compile

__all__ = ["approximate", "compile"]
