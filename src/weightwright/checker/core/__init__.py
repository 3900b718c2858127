"""What every rule of the checker uses: refusals and the rounding model."""
