"""The trained models of the papers, as the papers describe them; many models are trained side by side."""
