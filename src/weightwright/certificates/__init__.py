"""Claims about networks, the prover that finds them and the checker that believes nothing.

`claims` and `files` are data, shared by all. `prover` (numpy, outward rounding) and `checker`
(python-flint balls) are two programs that import nothing of each other's.
"""
