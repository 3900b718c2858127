"""What is proposed for the papers' networks, in plain floats: the checker decides."""
