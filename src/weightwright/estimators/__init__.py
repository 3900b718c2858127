"""Estimators with scikit-learn's interface whose fit is a run of a network (`ww.incontext.Ridge` and others)."""
