"""The prover: finds the smallest error terms it can defend, quickly, with numpy."""

from weightwright.certificates.prover.anchors import Anchors, Proof, Sum, Window
from weightwright.certificates.prover.compose import network_terms
from weightwright.certificates.prover.nearest import prove_nearest
from weightwright.certificates.prover.samples import Sampled
from weightwright.certificates.prover.taylor import first_edges, prove
from weightwright.certificates.prover.vector import Goal, VectorProof, prove_vector
from weightwright.certificates.prover.vector_rounding import QueryAxis, VectorAnchors, vector_terms

__all__ = [
    "Anchors",
    "Goal",
    "Proof",
    "QueryAxis",
    "Sampled",
    "Sum",
    "VectorAnchors",
    "VectorProof",
    "Window",
    "first_edges",
    "network_terms",
    "prove",
    "prove_nearest",
    "prove_vector",
    "vector_terms",
]
