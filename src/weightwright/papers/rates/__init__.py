"""How errors move with the parameters of a construction."""
