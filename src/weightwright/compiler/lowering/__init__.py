"""A graph of columns to heads: what gets a head, how accurate it must be, where its numbers stand."""
