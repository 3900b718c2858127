"""One file per study of the papers: its settings, its units of work, what came out, its figure."""
