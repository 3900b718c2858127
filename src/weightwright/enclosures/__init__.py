"""Interval and ball arithmetic that anyone may use: the prover takes intervals, the checker takes balls."""
