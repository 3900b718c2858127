"""A rule of examples and state as one pass of a network, and the loop around it."""
