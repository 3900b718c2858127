"""Networks that run an algorithm on their prompt: layers of a pass, the loop, tables of a loss's slope."""
