"""One function of one to three numbers: certified tables, and `approximate`, a network of one layer."""
