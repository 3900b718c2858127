"""`compile`: a torch function or module of tokens and features to an attention-only network."""
