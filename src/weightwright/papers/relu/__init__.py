"""UA-8 to UA-10: ReLU networks as attention."""
