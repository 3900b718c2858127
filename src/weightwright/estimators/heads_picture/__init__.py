"""The picture of what the heads of a fit do."""
