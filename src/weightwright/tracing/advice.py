"""What to write instead of an operation that has no counterpart."""

from __future__ import annotations

COMPARED = (
    "fixed weights compute one formula on all inputs, so nothing can depend on a comparison: write torch.relu,"
    " torch.maximum, torch.minimum, torch.clamp or torch.abs, or a smooth switch"
    " s = torch.sigmoid(k * (x - c)) and s * a + (1 - s) * b"
)


EXACT = "every number is meant exactly, as float64 holds it"


_GENERAL = (
    "write it with + - * / **, torch.exp, log, sqrt, tanh, sigmoid and the other functions of one number, maximum,"
    " clamp, sum, mean, var, softmax, matmul, einsum, reshape, indexing, torch.stack and torch.cat"
)


_IN_PLACE = "write y = y + 1 in place of y.add_(1), and build tensors with torch.stack and torch.cat"


_NUMBER = "keep to torch functions of the tensor itself (torch.sin in place of math.sin): its numbers are not known yet"


_ORDER = "the order of values has no counterpart: use torch.amax, torch.amin, torch.maximum, torch.minimum or softmax"


_ROUNDED = "a staircase has no counterpart: keep the number as it is, or add up steep torch.sigmoid(k * (x - c))"


_CAST = f"{EXACT}: leave the conversion out, or write .double()"


_RANDOM = "a compiled function is the same at every call: leave randomness out"


_SOLVE = "write the few steps of the method out (Newton's, Gauss's) with + - * /"


_ATTENTION = (
    "write it with nn.Linear and nn.functional.scaled_dot_product_attention, or softmax(q @ k.T / d**0.5, -1) @ v"
)


_BACKWARD = "take the gradient as a tensor: torch.func.grad(loss)(w), or torch.autograd.grad(loss, w)[0]"


#: What to write in place of an attribute that a traced tensor does not have.
ATTRIBUTES = {"grad": _BACKWARD}


_ADVICE = {
    "backward": _BACKWARD,
    "grad": "the gradient jumps where the loss has a kink, and a head has no jump: write a loss whose slope bends, such"
    " as nn.functional.huber_loss for abs, relu(x)**2 or nn.functional.softplus for relu",
    **dict.fromkeys(("item", "tolist", "numpy", "tensor", "as_tensor"), _NUMBER),
    **dict.fromkeys(("sort", "argsort", "topk", "kthvalue", "median", "argmax", "argmin", "unique", "mode"), _ORDER),
    **dict.fromkeys(("cummax", "cummin", "searchsorted", "bucketize", "histc"), _ORDER),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "frac", "fmod", "remainder", "mod", "floordiv"), _ROUNDED),
    **dict.fromkeys(("floor_divide", "int", "long", "short", "char", "byte", "heaviside"), _ROUNDED),
    **dict.fromkeys(("float", "half", "bfloat16", "type_as", "to", "type"), _CAST),
    **dict.fromkeys(("rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "normal"), _RANDOM),
    **dict.fromkeys(
        ("linalg_svd", "linalg_eigh", "linalg_lstsq", "linalg_qr", "linalg_cholesky", "cholesky_solve"), _SOLVE
    ),
    **dict.fromkeys(("nonzero", "isnan", "isinf", "isfinite", "allclose", "equal", "any", "all", "bool"), COMPARED),
    "multi_head_attention_forward": _ATTENTION,
    "setitem": "build the tensor with torch.stack or torch.cat of its parts",
    "empty_like": "use torch.zeros_like, and build the tensor with torch.stack or torch.cat of its parts",
    "sign": "a head has no jump: with dead_zone=d nothing is claimed where its argument is within d of it; or write"
    " torch.tanh(k * x) with a large k, or two sides that meet at the jump",
    "cumprod": "multiply the factors in a Python loop",
    "scatter": "build the tensor with torch.stack or torch.cat of its parts",
}


def advice(name: str) -> str:
    in_place = name.endswith("_") or name in ("iadd", "isub", "imul", "itruediv", "ipow")
    return _IN_PLACE if in_place else _ADVICE.get(name, _GENERAL)
