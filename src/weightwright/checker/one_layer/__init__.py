"""The checker's rules for networks of one layer: Taylor models, nearest anchors, several variables, samples."""
