"""UA-11, UA-12, AE-1 to AE-8: steps of gradient descent on the samples of a prompt."""
