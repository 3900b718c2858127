"""The picture of a network: lanes, flow, heads."""
