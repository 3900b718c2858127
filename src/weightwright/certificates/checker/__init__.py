"""The checker: reads a saved file and nothing else, recomputes every claim with python-flint balls.

It shares the file format and the claims with the rest of weightwright, and no enclosure code.
"""

from weightwright.certificates.checker.check import check, checked

__all__ = ["check", "checked"]
