"""The papers' theorems: what each says, its construction, a small instance. `ww.constructions` has them by name."""
