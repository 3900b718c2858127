"""The prover: finds the smallest error terms it can defend, quickly, with numpy."""

from weightwright.certificates.prover.anchors import Anchors, Proof, Sum, Window
from weightwright.certificates.prover.compose import network_terms
from weightwright.certificates.prover.nearest import prove_nearest
from weightwright.certificates.prover.samples import Sampled
from weightwright.certificates.prover.taylor import first_edges, prove

__all__ = ["Anchors", "Proof", "Sampled", "Sum", "Window", "first_edges", "network_terms", "prove", "prove_nearest"]
