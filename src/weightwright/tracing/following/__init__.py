"""Following a torch function from its input to what it returns, with the gradients that it takes on the way."""
