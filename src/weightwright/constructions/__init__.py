"""The papers' constructions, one file each, and a registry by id."""
