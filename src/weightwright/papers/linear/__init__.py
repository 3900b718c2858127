"""UA-1 to UA-3, UA-13: hardmax, truncated linear models, activations."""
