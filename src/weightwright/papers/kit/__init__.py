"""What all constructions share: their arguments, what they say of themselves, instances, measurements, rates."""
