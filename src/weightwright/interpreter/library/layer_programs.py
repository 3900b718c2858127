"""Layers of torch as programs: linear maps with the matrix in the prompt, activations, stacks of both; folding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from weightwright.interpreter.library.algorithms import ROOM, Algorithm, data_tokens, rounding, state, unit
from weightwright.interpreter.library.table_programs import smooth
from weightwright.interpreter.programs import Program
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import Floats

#: The largest distance between x sigmoid(x) and relu(x): a gate of steepness beta is off by this over beta.
GATE = 0.2784645427610739
#: Activations that are one table, and the steepest slope of each: the factor by which an error grows at most.
SMOOTH: dict[type[nn.Module], tuple[str, float]] = {
    nn.Tanh: ("tanh(x)", 1.0), nn.Sigmoid: ("sigmoid(x)", 0.25), nn.GELU: ("gelu(x)", 1.13),
    nn.SiLU: ("x*sigmoid(x)", 1.1), nn.Softplus: ("log(1 + exp(x))", 1.0),
}  # fmt: skip


def linear(vm: Interpreter, layer: nn.Linear, tokens: int | None = None, name: str = "linear") -> Algorithm:
    """An `nn.Linear` on the first features of every token; the last feature is 1 and stays 1, for its bias.

    A token sees itself alone, so the head returns W_V x: no error but rounding.
    """
    W = np.zeros((vm.features, vm.features))
    weight, bias = _numbers(layer.weight), None if layer.bias is None else _numbers(layer.bias)
    out, given = weight.shape
    if max(out, given) >= vm.features:
        raise ValueError(
            f"layer takes {max(out, given)} features and one that is 1, and the interpreter has features={vm.features}"
        )
    W[:out, :given], W[-1, -1] = weight, 1.0
    if bias is not None:
        W[:out, -1] = bias
    none = np.zeros((1, vm.features))
    program = vm.program(none, none, W, sees=np.eye(data_tokens(vm, tokens), dtype=bool), name=name)
    return state(vm, program, lambda x: x @ W.T, 0.0, "derived")


Piece = tuple[int, int, float, float]


def gates(
    vm: Interpreter, keep: Any, pieces: Sequence[Piece], tokens: int | None = None, name: str = "gates"
) -> Algorithm:
    """keep x plus relus: for each piece (feature, output, place, slope) slope relu(x - place), or, where slope is
    negative, slope relu(place - x). keep: (features, features). The last feature is 1.

    A token sees itself and a row of zeros. One head weighs both the same and returns keep x; one for each piece
    returns (x - place) sigmoid(beta (x - place)), which is off by 0.2785/beta at most, beta as large as queries and
    keys have room for.
    """
    n, one = data_tokens(vm, tokens, 1), unit(vm, -1)
    M = np.asarray(keep, dtype=np.float64)
    if len(pieces) + 1 > vm.heads:
        raise ValueError(f"{name} takes {len(pieces) + 1} heads, and the interpreter was built for heads={vm.heads}")
    key = ROOM * min(vm.bounds["w_max"], vm.bounds["k_max"])
    Q, K = np.zeros((2, len(pieces) + 1, vm.head_dim, vm.features))
    V, errors = [2 * M], np.zeros(vm.features)
    for m, (feature, output, place, slope) in enumerate(pieces, start=1):
        inside = np.sign(slope) * (unit(vm, feature) - place * one)  # what the relu is of
        reach = vm.bounds["x_max"] + abs(place)
        query = ROOM * min(vm.bounds["w_max"] / max(1.0, abs(place)), vm.bounds["q_max"] / reach)
        Q[m], K[m] = query * inside, key * one
        V.append(np.outer(unit(vm, output), slope * inside))
        errors[output] += abs(slope) * GATE / (vm.head_dim * query * key)
    sees = np.concatenate([np.ones((n, 1), dtype=bool), np.eye(n, dtype=bool)], axis=1)
    program = vm.program(Q, K, np.stack(V), rows=np.zeros((1, vm.features)), sees=sees, name=name)

    def plain(x: Floats) -> Floats:
        out = x @ M.T
        for feature, output, place, slope in pieces:
            out[..., output] += slope * np.maximum(np.sign(slope) * (x[..., feature] - place), 0.0)
        return out

    return state(vm, program, plain, float(errors.max()), "derived")


def activation(
    vm: Interpreter, layer: nn.Module, features: int, reach: float, rows: int = 16, tokens: int | None = None
) -> Algorithm:
    """tanh, sigmoid, GELU, SiLU and softplus by a table, with a head for each of the first features (measured); relu by
    gates (derived), with one more. The last feature is 1 and stays 1. Any other activation is outside: say it as a
    formula to `library.smooth`."""
    if isinstance(layer, nn.ReLU):
        keep = np.zeros((vm.features, vm.features))
        keep[-1, -1] = 1.0
        return gates(vm, keep, [(c, c, 0.0, 1.0) for c in range(features)], tokens, "relu")
    if type(layer) not in SMOOTH or getattr(layer, "approximate", "none") != "none":
        raise ValueError(f"layer must be one of {', '.join(kind.__name__ for kind in SMOOTH)} or ReLU, not {layer!r}")
    formula = SMOOTH[type(layer)][0]
    return smooth(vm, formula, reach, range(features), rows, formula, tokens)


def stack(
    vm: Interpreter, network: nn.Sequential, rows: int = 16, tokens: int | None = None
) -> tuple[list[Algorithm], float]:
    """An `nn.Sequential` of `nn.Linear` and activations, a program each, for `vm.run`; and how far its output is from
    torch's at most, the module's bounds included, if the statements of its programs hold.

    Between two programs the output goes back in: that is outside the network. Errors are passed on: a linear map makes
    them so much larger as its largest row sum, an activation as its slope; what the constant feature is off by, the
    module's bound for every linear layer since the last activation, shifts the scores of a table.
    """
    programs, error, of_one, width = [], 0.0, 0.0, 0
    bound = vm.certificate.bound
    for layer in network:
        if isinstance(layer, nn.Linear):
            made, width = linear(vm, layer, tokens), layer.out_features
            weights = np.abs(made.W_V[0])
            error = float((weights[:-1, :-1].sum(axis=1) * error + weights[:-1, -1] * of_one).max(initial=0.0))
        else:
            made = activation(vm, layer, width, vm.bounds["x_max"], rows, tokens)
            error = (SMOOTH[type(layer)][1] if type(layer) in SMOOTH else 1.0) * error + _shift(vm, made, of_one)
            of_one = 0.0 if len(made.rows) > 1 else of_one  # a table's rows hold a 1 of their own
        programs.append(made)
        error, of_one = error + made.error + bound, of_one + rounding(vm, made) + bound
    return programs, error


def _shift(vm: Interpreter, made: Program, of_one: float) -> float:
    """What a constant that is off does to scores and values, and these to an output."""
    total, bounds = 0.0, vm.bounds
    for W_Q, W_K, W_V in zip(made.W_Q, made.W_K, made.W_V, strict=True):
        q, k = (
            np.minimum(np.abs(W).sum(axis=1) * bounds["x_max"], bounds[name])
            for W, name in ((W_Q, "q_max"), (W_K, "k_max"))
        )
        keys_too = of_one * np.abs(W_K[:, -1])
        moved = 2 * float(of_one * np.abs(W_Q[:, -1]) @ (k + keys_too) + q @ keys_too)
        largest = min(bounds["v_max"], float(np.abs(W_V).sum(axis=1).max()) * bounds["x_max"])
        total += 2 * largest if moved > 1 else float(np.expm1(moved)) * largest
        total += of_one * float(np.abs(W_V[:, -1]).max())
    return total


def fold(vm: Interpreter, program: Program, before: Any = None, after: Any = None) -> Program:
    """The program on before x instead of x, and after times what it returns (Lemma D.3): W_Q, W_K and W_V times one
    matrix, the other times W_V; no layer of its own. Its rows must come out of `before` as they were: rows that it can
    not reach are refused."""
    A = np.eye(vm.features) if before is None else np.asarray(before, dtype=np.float64)
    B = np.eye(vm.features) if after is None else np.asarray(after, dtype=np.float64)
    for name, matrix in (("before", A), ("after", B)):
        if matrix.shape != (vm.features, vm.features):
            raise ValueError(f"{name} must be ({vm.features}, {vm.features}), not {matrix.shape}")
    rows = np.linalg.lstsq(A, program.rows.T, rcond=None)[0].T
    if len(rows) and np.abs(rows @ A.T - program.rows).max() > 1e-12 * vm.bounds["x_max"]:
        raise ValueError(f"before has no inputs that it turns into the rows of {program.name}: fold it only after them")
    return vm.program(
        program.W_Q @ A, program.W_K @ A, B @ program.W_V @ A, rows=rows if len(rows) else None, sees=program.sees,
        name=program.name,
    )  # fmt: skip


def _numbers(parameter: torch.Tensor) -> Floats:
    found: Floats = parameter.detach().double().cpu().numpy()
    return found
