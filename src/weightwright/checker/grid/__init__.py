"""The checker's rule for networks that look values up on a grid of cells."""
