"""What heads on registers compute, as functions of numbers: in torch, and as one Triton kernel on a GPU."""
