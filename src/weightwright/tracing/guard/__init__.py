"""What was traced is what the function does: the original is run, and compared with its graph or formula."""
