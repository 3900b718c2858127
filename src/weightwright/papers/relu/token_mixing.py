"""UA-9: attention computes X -> R X A exactly, up to rounding.

Source: universal approximation paper, Lemma I.1; the network and its deviations are those of `heads.mix`. Here the
rounding is proven.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import Composite
from weightwright.heads.mix import finite_matrix, mix
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import RidgeFunctions
from weightwright.papers.kit.arguments import token_box
from weightwright.papers.kit.constructed import described
from weightwright.runtime import AttentionNetwork


def token_mixing(
    R: npt.ArrayLike, A: npt.ArrayLike, domain: Box | tuple[float, float], tol: float | None = None
) -> AttentionNetwork:
    """X (n, d_in) -> R X A (n, d_out), for any real R (n, n) and A (d_in, d_out); the paper's B is R^T, its A is A^T.

    R: (n, n), what tokens are multiplied with.
    A: (d_in, d_out), what features are multiplied with.
    tol: ToleranceError where rounding may come to more; None: whatever it comes to.

    Error: rounding only. Cost: 1 layer, 2 heads, 1 register.

    >>> net = token_mixing([[1, -2], [0, 3]], [[1], [10]], (-1, 1))
    >>> net.certificate.status, net.certificate.bound < 1e-11, net.network.native
    ('PROVEN', True, True)
    """
    R, A = finite_matrix("R", R), finite_matrix("A", A)
    network = mix(R, A)
    (n, d), outputs = (len(R), len(A)), A.shape[1]
    box = token_box(domain, n, d)
    ridge = RidgeFunctions(
        (), np.zeros((0, n * d)), np.zeros(0), np.asarray(np.kron(R, A.T), dtype=np.float64), np.zeros(n * outputs)
    )
    net = certify(network, Composite(ridge, ()), box, tol)

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = rng.uniform(box.lo, box.hi, (count, n, d))
        x[::2] = np.where(rng.random(x[::2].shape) < 0.5, box.lo, box.hi)
        return x

    return described(net, "UA-9", "faithful", {"H": 2.0}, {"H": 2.0}, lambda x: R @ x @ A, probes)
