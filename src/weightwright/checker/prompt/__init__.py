"""The checker's rule for networks that run an algorithm on the examples in their prompt."""
