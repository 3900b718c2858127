"""A small instance of each theorem: what is built and measured, counted, drawn along a line, and its rates."""
