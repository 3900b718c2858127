"""Enclosures of the optimum of scikit-learn's objectives."""
