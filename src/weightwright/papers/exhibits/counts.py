"""UA-14: exact counts of heads, registers and stored numbers of the constructions that are not on a grid, as formulas.

Source: universal approximation paper, Remark E.1, which has orders only (`paper_counts`). Here every number that a
network stores counts, zeros included: maps before and after, registers, four matrices for each head. n tokens, d
features, D the width of the stream; a head with queries of size h and values of size v has 2 D h + D v + v d_out.

UA-14 for networks that read examples from their prompt: exact counts as formulas, beside what was built.

n samples, d features, B the width of the stream, W = B + 2 d + 2 the same with the keys and values of a block. One
table of P keys takes three layers: a linear map to W, a head, a linear map back. A pass has two linear maps more, and a
threshold 2 d gates.

The paper's own counts of heads and parameters (UA-14), as numbers to set beside what was built.

Source: universal approximation paper, Remark E.1; where it gives an order, the constant is taken as 1.
d features, n tokens, g grid points along each axis, N hidden units, p anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weightwright.network import Attention, Loop
from weightwright.network.layers import Layer
from weightwright.papers.kit.instance import Count, counted
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import ends_a_pass

Counts = dict[str, int]


def counts_hardmax(n: int) -> Counts:
    """UA-1: one head with queries of size n + 1 and values of size n, a register for each score."""
    D = 3 * n + 1
    parameters = n * D + D + n * D + 2 * D * (n + 1) + 2 * D * n + D * n + n
    return {"layers": 1, "heads": 1, "registers": n, "width": D, "parameters": parameters}


def counts_truncated_linear(n: int, d: int, p: int, rows: int = 1) -> Counts:
    """UA-2 and UA-13, faithful: p tokens inside, the maps on the token axis and the scales per position included.

    >>> counts_truncated_linear(2, 2, 16)["heads"]
    1
    """
    D = 4 + rows
    embed = d * D + p * n + n * d + p * D
    head = 4 * D + D * rows + rows * rows
    read = rows * rows + n * p + rows
    return {"layers": 1, "heads": 1, "registers": 0, "width": D, "parameters": embed + head + read}


def counts_shared_anchors(n: int, d: int, H: int, shared: bool = True, one_hot: bool = True) -> Counts:
    """UA-3, faithful: H heads on a position code of n numbers (one-hot) or of 3 H."""
    D = 3 + (n if one_hot else 3 * H)
    embed = d * D + n * D + (0 if shared else n * d)
    return {"layers": 1, "heads": H, "registers": 0, "width": D, "parameters": embed + 6 * D * H + D + 1}


def counts_literal(n: int, d: int, H: int) -> Counts:
    """AE-8 as printed: H heads of one layer whose keys are the tokens, (x, k w, w) and a one-hot code in each."""
    D = 3 * d + n + 2
    parameters = 3 * d * D + n * D + H * (2 * D * (d + 1) + 2 * D) + D + 1
    return {"layers": 1, "heads": H, "registers": 0, "width": D, "parameters": parameters}


def counts_on_registers(n: int, d: int, heads: int, keys: int, shared: bool = False) -> Counts:
    """UA-2 and UA-3, spectral: heads whose keys stand on registers."""
    D = 3 + 3 * heads
    embed = d * D + n * D + (0 if shared else n * d)
    parameters = embed + keys * D + 6 * D * heads + D + 1
    return {"layers": 1, "heads": heads, "registers": keys, "width": D, "parameters": parameters}


def counts_relu_network(n: int, d: int, outputs: int, units: int, linear: int, parts: tuple[int, int, int]) -> Counts:
    """UA-8: `outputs` for each token, `linear` of them all with a part that is linear in the inputs. parts: heads of an
    identity, heads of a relu, keys of both."""
    identity, relu, keys = parts
    K = units + linear
    D = 1 + 3 * (identity + relu) + 3 * K
    heads = K * identity + units * relu + linear * identity
    embed = n * (d * D + n * n) + D
    between = D * D + n + D
    read = n * (D * outputs + n) + n * outputs
    parameters = embed + keys * D + 6 * D * heads + between + read
    return {"layers": 2, "heads": heads, "registers": keys, "width": D, "parameters": parameters}


def counts_token_mixing(n: int, d: int, outputs: int) -> Counts:
    """UA-9: two heads with queries of size n, one register."""
    D = d + n + 1 + outputs
    heads = 2 * (2 * n * D + 2 * D * outputs)
    parameters = d * D + n * D + D + heads + D * outputs + outputs
    return {"layers": 1, "heads": 2, "registers": 1, "width": D, "parameters": parameters}


def counts_native_relu(n: int, d: int, outputs: int, units: int, read: int | None = None) -> Counts:
    """UA-10: n copies, and a gate for each hidden unit and token that reads it (`read`, n units unless fewer)."""
    D = d + 2 + n + units + outputs
    gates = n * units if read is None else read
    parameters = d * D + n * D + D + n * (4 * D + 2 * D * d) + 6 * D * gates + D * outputs + outputs
    return {"layers": 2, "heads": n + gates, "registers": 1, "width": D, "parameters": parameters}


def counts_hopfield_function(d: int, P: int, outputs: int = 1) -> Counts:
    """AE-13, faithful: one head whose P + 1 stored patterns are registers."""
    D = 4 + 2 * outputs
    parameters = (d + 1) * D + (P + 1) * D + 4 * D + 2 * D * outputs + D * outputs + outputs
    return {"layers": 1, "heads": 1, "registers": P + 1, "width": D, "parameters": parameters}


def counts_hopfield_heads(d: int, heads: int, keys: int, outputs: int = 1) -> Counts:
    """AE-13, spectral: heads of their own for every output."""
    D = 2 + 3 * heads + outputs
    parameters = (d + 1) * D + keys * D + 6 * D * heads + D * outputs + outputs
    return {"layers": 1, "heads": heads, "registers": keys, "width": D, "parameters": parameters}


def counts_hopfield_gradients(d: int, keys: tuple[int, ...]) -> Counts:
    """AE-14: for every table, of this many keys, a map that spreads the examples, a head, a map that gathers."""
    D = 6 * d + 2
    wide = D + 2 * d + 2
    spread = sum(5 * (D * wide + P) + wide for P in keys)
    heads = len(keys) * (2 * wide * (d + 2) + 2 * wide * d)
    gather = sum(wide * D + P + D for P in keys)
    parameters = (2 * d + 2) * D + spread + heads + gather + D * d + d
    return {"layers": len(keys), "heads": len(keys), "registers": 0, "width": D, "parameters": parameters}


@dataclass(frozen=True)
class PromptShape:
    """What the counts depend on. tables: keys of each. passes: as they stand in the layers; steps: as they are run; 0
    for a network that returns every sample's f u. values: u is an input of its own."""

    n: int
    d: int
    tables: Sequence[int]
    passes: int = 0
    steps: int = 0
    threshold: bool = False
    values: bool = False

    @property
    def width(self) -> int:
        """x, u, w, g, z, q; y, one; tau and a mark of the samples where there is a threshold."""
        return 6 * self.d + 2 + (self.d + 1 if self.threshold else 0)


def counts_prompted(shape: PromptShape) -> dict[str, int]:
    """Attention layers (as run), heads (as stored), registers, width and all numbers that are stored.

    >>> counts_prompted(PromptShape(3, 2, [33]))["parameters"]
    2266
    """
    n, d, B = shape.n, shape.d, shape.width
    W, gates = B + 2 * d + 2, 2 * d if shape.threshold else 0
    inputs = 2 * d + 1 + d * (shape.values + shape.threshold)
    tables = sum(6 * B * W + 6 * P + W + B + 4 * W * (d + 1) for P in shape.tables)
    around = 3 * B * B + n * n + 2 * B + 4 * B * gates
    stored = shape.passes if shape.steps else 1
    parameters = inputs * B + B + stored * tables + shape.passes * around + B * d + d + (n if shape.steps else 0)
    registers = int(shape.threshold)
    return {
        "layers": max(shape.steps, 1) * len(shape.tables) + (shape.steps if gates else 0),
        "heads": stored * (len(shape.tables) + gates),
        "registers": registers,
        "width": B,
        "parameters": parameters + registers * B,
    }


def counted_prompted(
    net: AttentionNetwork, name: str, shape: PromptShape, paper: Mapping[str, tuple[str, float]] | None = None
) -> tuple[Count, ...]:
    """All of them, the layers of every kind, and the scores of a step."""
    paper = paper or {}
    every = 3 * len(shape.tables) + (3 if shape.threshold else 2 if shape.steps else 0)
    own = {
        "layers of every kind": ("3 a table, 2 or 3 a pass", max(shape.steps, 1) * every, _all_layers(net)),
        "scores a step": ("n times the keys of a sample", shape.n * sum(shape.tables), _scores(net, shape.n)),
    }
    return (
        *counted(net, "counts_prompted", counts_prompted(shape), paper, name),
        *(Count(f"{what}, {name}", *given, *paper.get(what, ())) for what, given in own.items()),
    )


def _all_layers(net: AttentionNetwork) -> int:
    def count(layers: Sequence[Layer]) -> int:
        return sum(layer.times * count(layer.layers) if isinstance(layer, Loop) else 1 for layer in layers)

    return count(net.network.layers)


def _scores(net: AttentionNetwork, n: int) -> int:
    """What the heads of the first pass compute that see a block: a block for each sample, asked by one token."""
    total = 0
    for layer in net.network.flat_layers:
        if isinstance(layer, Attention):
            total += sum(n * head.sees.block for head in layer.heads if head.sees.data == "block")
        elif ends_a_pass(layer):
            break
    return total


def heads_to_scalar(d: int, n: int, g: int) -> int:
    """2 d g^(dn) + 1: two heads for each feature and grid point, and one that looks the value up.

    >>> heads_to_scalar(1, 2, 4)
    33
    """
    return int(2 * d * g ** (d * n) + 1)


def heads_to_sequence(d: int, n: int, g: int) -> int:
    """2 d g^(dn) + d n: the same first layer, and a lookup for each entry of the output."""
    return int(2 * d * g ** (d * n) + d * n)


def parameters_of_grids(d: int, n: int, g: int) -> int:
    """O(d n g^(2dn) + (dn)²), mostly the maps on the token axis of the first layer."""
    return int(d * n * g ** (2 * d * n) + (d * n) ** 2)


def heads_native(N: int) -> int:
    """O(N) for UA-10, N units for each token."""
    return N


def parameters_native(n: int, N: int, d: int) -> int:
    """O(N (d² + d n) + n² N²) for UA-10, first and third layer; N units for each token."""
    return N * (d**2 + d * n) + n**2 * N**2


def heads_shared(n: int, p: int) -> int:
    """H = p / (n-2) heads for UA-3, rounded up (Theorem 3.9)."""
    return -(-p // (n - 2))


def stream_of_one_head(d: int, outputs: int, p: int) -> int:
    """Numbers in what UA-2's linear map makes of the input: 2 d + outputs + 2 rows for each of p tokens."""
    return (2 * d + outputs + 2) * p
