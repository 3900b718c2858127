"""AE-13, AE-14: Hopfield layers."""
