"""A small instance of each theorem, built, measured, counted and drawn."""
