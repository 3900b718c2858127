"""Networks that run passes on their prompt, computed by pieces of the stream: what all tokens share, once."""
