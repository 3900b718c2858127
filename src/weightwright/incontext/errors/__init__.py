"""How far a run is from the exact algorithm and from the optimum."""
