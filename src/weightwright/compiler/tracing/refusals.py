"""What to write instead of an operation that has no counterpart."""

from __future__ import annotations

COMPARED = (
    "fixed weights compute one formula on all inputs, so nothing can depend on a comparison: write torch.relu,"
    " torch.maximum, torch.minimum, torch.clamp or torch.abs, or a smooth switch"
    " s = torch.sigmoid(k * (x - c)) and s * a + (1 - s) * b"
)
_GENERAL = (
    "write it with + - * / **, torch.exp, log, sqrt, tanh, sigmoid and the other functions of one number, maximum,"
    " clamp, sum, mean, var, softmax, matmul, einsum, reshape, indexing, torch.stack and torch.cat"
)
_IN_PLACE = "write y = y + 1 in place of y.add_(1), and build tensors with torch.stack and torch.cat"
_NUMBER = "keep to torch functions of the tensor itself (torch.sin in place of math.sin): its numbers are not known yet"
_ORDER = "the order of values has no counterpart: use torch.amax, torch.amin, torch.maximum, torch.minimum or softmax"
_ROUNDED = "a staircase has no counterpart: keep the number as it is, or add up steep torch.sigmoid(k * (x - c))"
_RANDOM = "a compiled function is the same at every call: leave randomness out"
_SOLVE = "write the few steps of the method out (Newton's, Gauss's) with + - * /"
_ATTENTION = (
    "write it with nn.Linear and nn.functional.scaled_dot_product_attention, or softmax(q @ k.T / d**0.5, -1) @ v"
)

_ADVICE = {
    **dict.fromkeys(("item", "tolist", "numpy", "tensor", "as_tensor"), _NUMBER),
    **dict.fromkeys(("sort", "argsort", "topk", "kthvalue", "median", "argmax", "argmin", "unique", "mode"), _ORDER),
    **dict.fromkeys(("cummax", "cummin", "searchsorted", "bucketize", "histc"), _ORDER),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "frac", "fmod", "remainder", "mod", "floordiv"), _ROUNDED),
    **dict.fromkeys(("floor_divide", "int", "long", "heaviside"), _ROUNDED),
    **dict.fromkeys(("rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "normal"), _RANDOM),
    **dict.fromkeys(
        ("inverse", "linalg_inv", "linalg_solve", "linalg_det", "det", "linalg_svd", "linalg_eigh"), _SOLVE
    ),
    **dict.fromkeys(("nonzero", "isnan", "isinf", "isfinite", "allclose", "equal", "any", "all", "bool"), COMPARED),
    "multi_head_attention_forward": _ATTENTION,
    "setitem": "build the tensor with torch.stack or torch.cat of its parts",
    "empty_like": "use torch.zeros_like, and build the tensor with torch.stack or torch.cat of its parts",
    "sign": "a jump has no counterpart: write torch.tanh(k * x) with a large k; ww.approximate has a dead_zone for it",
    "cumprod": "multiply the factors in a Python loop",
    "scatter": "build the tensor with torch.stack or torch.cat of its parts",
}


def advice(name: str) -> str:
    in_place = name.endswith("_") or name in ("iadd", "isub", "imul", "itruediv", "ipow")
    return _IN_PLACE if in_place else _ADVICE.get(name, _GENERAL)
