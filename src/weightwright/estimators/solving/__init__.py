"""From data to a fit: scaling, plans, networks, runs to the fixed point."""
