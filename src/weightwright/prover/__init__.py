"""The prover: finds the smallest error terms it can defend, quickly, with numpy."""

from weightwright.prover.heads import Anchors, Proof, Sum, Window, network_terms
from weightwright.prover.nearest import prove_nearest
from weightwright.prover.taylor import Sampled, first_edges, prove
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
