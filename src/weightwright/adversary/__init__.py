"""The adversary: looks for the worst input of a network, against its target in high precision."""
