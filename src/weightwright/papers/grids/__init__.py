"""UA-4 to UA-7: values on a grid of cells."""
