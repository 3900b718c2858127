"""UA-14: exact counts of heads, registers and stored numbers of the constructions that are not on a grid, as formulas.

Source: universal approximation paper, Remark E.1, which has orders only (`paper_counts`). Here every number that a
network stores counts, zeros included: maps before and after, registers, four matrices for each head. n tokens, d
features, D the width of the stream; a head with queries of size h and values of size v has 2 D h + D v + v d_out.
"""

from __future__ import annotations

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
    """AE-14: for every table (so many keys each) a map that spreads the examples, a head, and a map that gathers."""
    D = 6 * d + 2
    wide = D + 2 * d + 2
    spread = sum(5 * (D * wide + P) + wide for P in keys)
    heads = len(keys) * (2 * wide * (d + 2) + 2 * wide * d)
    gather = sum(wide * D + P + D for P in keys)
    parameters = (2 * d + 2) * D + spread + heads + gather + D * d + d
    return {"layers": len(keys), "heads": len(keys), "registers": 0, "width": D, "parameters": parameters}
