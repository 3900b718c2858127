"""Balls of python-flint: series, covers, polynomials, linear algebra; slow and independent of the intervals."""
