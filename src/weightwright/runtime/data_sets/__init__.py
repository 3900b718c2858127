"""What a module that remembers a data set says of sequences, in the words of that data set."""
