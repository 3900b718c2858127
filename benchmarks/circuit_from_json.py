"""A circuit run from its JSON alone, with nothing of weightwright: what docs/circuits.md says, as a function."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def run_json(text: str, X: np.ndarray) -> np.ndarray:
    """X: (..., tokens, inputs)."""
    return run(json.loads(text), np.asarray(X, dtype=np.float64))


def run(circuit: dict[str, Any], X: np.ndarray) -> np.ndarray:
    results: dict[str, np.ndarray] = {}
    into: dict[str, list[dict[str, Any]]] = {}
    for edge in circuit["edges"]:
        into.setdefault(edge["target"], []).append(edge)
    shape, inputs, outputs = X.shape[:-1], 0, []
    for node in circuit["nodes"]:
        if node["type"] == "input":
            results[node["name"]] = X[..., inputs : inputs + 1]
            inputs += 1
            continue
        edges = into.get(node["name"], [])
        shape = results[edges[0]["source"]].shape[:-1] if edges else shape  # maps may change the number of tokens
        slots = [np.broadcast_to(np.array(slot.get("constant", [0.0])), shape) for slot in node["slots"]]
        for edge in edges:
            source = results[edge["source"]][..., edge["result"]]
            slots[edge["slot"]] = slots[edge["slot"]] + edge["coefficient"] * source
        result = compute(node, np.stack(slots, axis=-1))
        results[node["name"]], shape = result, result.shape[:-1]
        if node["type"] == "output":
            outputs.append(result)
    return np.concatenate(outputs, axis=-1)


def compute(node: dict[str, Any], S: np.ndarray) -> np.ndarray:
    if node["type"] == "output":
        return S
    if node["type"] == "relu":
        return np.maximum(S, 0)
    if node["type"] == "softmax":
        return softmax(node.get("beta", 1.0) * S, -1 if node.get("over", "features") == "features" else -2)
    if node["type"] == "map":
        return move(node.get("moves"), S * np.array(node["scale"]) if "scale" in node else S)
    if node["type"] == "loop":
        for _ in range(node.get("times", 1)):
            S = run(node["body"], S)
        return S
    return attend(node, S)


def attend(node: dict[str, Any], S: np.ndarray) -> np.ndarray:
    h = sum(slot["name"].startswith("query") for slot in node["slots"])
    v, n, beta = len(node["results"]), S.shape[-2], node.get("beta", 1.0)
    keys, values = np.array(node.get("keys", [])).reshape(-1, h), np.array(node.get("values", [])).reshape(-1, v)
    Q, sees, i = S[..., :h], node.get("sees", "none"), np.arange(n)
    if "window" in node:
        return window(node, Q[..., :1], keys[:, 0] / 2, values)
    scores = beta * Q @ keys.T
    V = np.broadcast_to(values, (*S.shape[:-2], *values.shape))
    if sees != "none":
        visible = {
            "self": i[:, None] == i,
            "block": i[:, None] // max(node.get("block", 0), 1) == i // max(node.get("block", 0), 1),
            "earlier": i[:, None] >= i,
            "all": np.ones((n, n), dtype=bool),
        }[sees]
        if "mask" in node:
            visible = visible & np.array(node["mask"], dtype=bool)
        data = np.where(visible, beta * Q @ np.swapaxes(S[..., h : 2 * h], -1, -2), -np.inf)
        scores, V = np.concatenate([scores, data], -1), np.concatenate([V, S[..., 2 * h :]], -2)
    out = softmax(scores, -1) @ V
    if node.get("asks", "all") == "first":
        out = np.where((i % node["block"] == 0)[:, None], out, 0.0)
    return out


def window(node: dict[str, Any], t: np.ndarray, anchors: np.ndarray, values: np.ndarray) -> np.ndarray:
    M = node["window"]
    t = np.clip(t, anchors[M] - 0.5, anchors[-1 - M] + 0.5)
    nearest = np.clip(np.rint(t), anchors[M], anchors[-1 - M])
    scores = np.where(np.abs(anchors - nearest) <= M, -node.get("beta", 1.0) * (t - anchors) ** 2, -np.inf)
    return softmax(scores, -1) @ values


def move(moves: dict[str, Any] | None, Y: np.ndarray) -> np.ndarray:
    n = Y.shape[-2]
    match moves:
        case None:
            return Y
        case {"gather": sources}:
            return np.stack([Y[..., s, :] if s >= 0 else np.zeros_like(Y[..., 0, :]) for s in sources], -2)
        case {"total": after}:
            return np.repeat(Y.sum(axis=-2, keepdims=True), after, axis=-2)
        case {"block": R}:
            return np.kron(np.eye(n // len(R[0])), np.array(R)) @ Y
        case {"matrix": R}:
            return np.array(R) @ Y
    raise AssertionError(moves)


def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)
