"""Three papers, built: their theorems as constructions, instances and texts, and their studies run again.

The library imports nothing of this folder, which plugs itself in: `extension.py`.
"""
