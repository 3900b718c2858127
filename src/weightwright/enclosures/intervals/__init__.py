"""Intervals in numpy with outward rounding, Taylor jets and polynomials over them: quick."""
