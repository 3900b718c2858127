"""The checker's walk through networks of several layers, tokens or outputs."""
