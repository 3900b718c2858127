"""Following a torch function: symbolic tensors, and what every torch operation does to them."""
