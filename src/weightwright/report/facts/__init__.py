"""Facts about networks as plain dictionaries, and tables of them."""
