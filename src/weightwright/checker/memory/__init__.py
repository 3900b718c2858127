"""The checker's rule for networks that remember a data set."""
