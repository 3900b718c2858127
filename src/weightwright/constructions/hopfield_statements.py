"""The theorems about Hopfield layers of the paper on in-context algorithm emulation, in our words.

Patterns are rows here, columns in the paper.
"""

from __future__ import annotations

from weightwright.constructions.theorem import Theorem

_PAPER = "in-context algorithm emulation paper"
_HERE = "weightwright.constructions"

HOPFIELD = (
    Theorem(
        id="AE-13",
        title="a Hopfield layer computes f(a . z + b)",
        statement="For an affine function l of a token and any continuous f with o outputs, a Hopfield layer with P + 1"
        " stored patterns, one for each anchor L_r on the range of l, and the values f(L_r) computes f(l(z)) for every"
        " token z as closely as wanted.",
        source=f"{_PAPER}, Theorem E.1",
        repaired="The proof compares (l - L_r)² with the spacing dL, which holds for dL <= 2 only. Distances are"
        " compared with distances: anchors farther than dL weigh e^(-beta dL²) beside the nearest, so dL = tol over the"
        " slope of f is enough where the printed proof needs its square. l is computed by the linear map before the"
        " layer; the scores are the same.",
        rate="1/P for the paper's anchors; ours falls exponentially in the number of keys",
        expects="PROVEN",
        home=f"{_HERE}.hopfield_layer",
        small=f"{_HERE}.hopfield_instances:function",
        studies=f"{_HERE}.hopfield_instances:function_studies",
    ),
    Theorem(
        id="AE-14",
        title="a Hopfield layer computes the gradients of its prompt",
        statement="For examples (x_i, y_i) and a vector w, a Hopfield layer whose state patterns are w and whose stored"
        " patterns are spread out of the examples by a linear map computes f(w . x_i - y_i) x_i for every i as closely"
        " as wanted, for any continuous f; with f the derivative of a loss these are the examples' gradients.",
        source=f"{_PAPER}, Theorem E.2, Corollary E.2.1",
        repaired="The constant row -1 of the state patterns turns -L² into +L²: it is +1. The printed C, which is to"
        " keep a state pattern on the stored patterns of its own example, is 2 d B² + B - ln e0, but another example's"
        " best score can be (d B² + B)²: with d = 8 and B = 1 all weight goes to a wrong one. The stored patterns of"
        " other examples are hidden; the printed layer with a C that is enough gives the same to rounding.",
        rate="1/P for the paper's anchors; ours falls exponentially in the number of keys",
        expects="PROVEN",
        home=f"{_HERE}.hopfield_prompt",
        small=f"{_HERE}.hopfield_instances:gradients",
        studies=f"{_HERE}.hopfield_instances:gradients_studies",
    ),
)
