"""Kinds of claim and of target that only the papers' networks have, as data."""
