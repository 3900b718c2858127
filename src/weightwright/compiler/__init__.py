"""From what users write to networks with certificates."""

from weightwright.compiler.approximate import approximate

__all__ = ["approximate"]
