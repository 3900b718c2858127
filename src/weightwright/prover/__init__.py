"""The prover: finds the smallest error terms it can defend, quickly, with numpy."""

from weightwright.prover.head_sums import Anchors, Proof, Sum, Window
from weightwright.prover.layer_terms import network_terms
from weightwright.prover.nearest import prove_nearest
from weightwright.prover.sampled import Sampled
from weightwright.prover.taylor import first_edges, prove
from weightwright.prover.vector import Goal, VectorProof, prove_vector
from weightwright.prover.vector_rounding import QueryAxis, VectorAnchors, vector_terms

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
