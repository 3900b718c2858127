"""The checker: reads a saved file and nothing else, recomputes every claim with python-flint balls.

It shares the file format, the claims and the parser with everyone, and no enclosure code with the prover.
"""
