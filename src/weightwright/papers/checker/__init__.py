"""The checker's rules for what only the papers' networks have; `registration` says for what each is."""
