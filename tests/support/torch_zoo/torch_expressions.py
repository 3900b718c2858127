"""Expressions of torch that no table of functions names: casts, writes in place, views, branches, modules, tricks."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from support.torch_zoo.torch_table import in_a_line
from torch import nn
from torch.nn import functional as F  # noqa: N812

Function = Callable[[Any], Any]
W = torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
ROW = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
NET32 = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()


def written(write: Callable[[Any], Any]) -> Function:
    """A copy of the input after something was written to it, beside what the writing returned."""

    def function(x: Any) -> Any:
        y = x.clone()
        result = write(y)
        return y if result is None else in_a_line(y, result)

    return function


def statement(code: str) -> Function:
    """The y that some lines leave behind, from x."""

    def function(x: Any) -> Any:
        names = {"x": x, "torch": torch, "F": F, "np": np, "W": W, "ROW": ROW, "math": math, "copy": copy}
        exec(code, names)
        return names["y"]

    return function


CASTS: dict[str, Function] = {
    **{
        f".{name}()": lambda x, name=name: getattr(x * 3, name)()
        for name in ("int", "long", "short", "char", "byte", "half", "bfloat16", "float", "double", "bool")
    },
    **{
        f"{how} {dtype}": make(dtype)
        for dtype in (torch.int32, torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
        for how, make in {
            "to": lambda d: lambda x: (x * 3).to(d),
            "to, named": lambda d: lambda x: (x * 3).to(dtype=d) * 2,
            "to a tensor": lambda d: lambda x: (x * 3).to(torch.ones(1, dtype=d)),
            "type": lambda d: lambda x: (x * 3).type(d),
            "type_as": lambda d: lambda x: (x * 3).type_as(torch.ones(1, dtype=d)),
            "and back": lambda d: lambda x: (x * 3).to(d).to(torch.float64),
            "sum": lambda d: lambda x: (x * 3).sum(1, dtype=d),
            "mean": lambda d: lambda x: torch.mean(x, 1, dtype=d),
            "softmax": lambda d: lambda x: F.softmax(x, 1, dtype=d),
            "positional softmax": lambda d: lambda x: x.softmax(1, d),
            "log_softmax": lambda d: lambda x: F.log_softmax(x, 1, dtype=d),
            "norm": lambda d: lambda x: torch.linalg.vector_norm(x, dim=1, dtype=d),
            "full_like": lambda d: lambda x: x + torch.full_like(x, 0.7, dtype=d),
            "ones_like": lambda d: lambda x: x + torch.ones_like(x, dtype=d) / 3,
            "new_full": lambda d: lambda x: x + x.new_full((3,), 0.7, dtype=d),
            "new_tensor": lambda d: lambda x: x * x.new_tensor([0.3, 1.7, 2.0], dtype=d),
            "constant": lambda d: lambda x: x * torch.tensor([0.3, 1.7, 2.0]).to(d),
            "autocast": lambda d: statement(f"with torch.autocast('cpu', {d}, d=0): y = x @ W"),
        }.items()
    },
    "type by name": lambda x: x.type("torch.FloatTensor"),
    "type of class": lambda x: x.type(torch.FloatTensor),
    "autocast": statement("with torch.autocast('cpu', torch.bfloat16): y = x @ W"),
    "default dtype": lambda x: x * torch.tensor(0.1) + torch.full((3,), 0.3),
    "numpy scalar": lambda x: x * np.float32(0.1),
    "float32 network": lambda x: NET32(x),
    "float32 constants": lambda x: NET32(x) + torch.tensor([[0.1, 0.3]]) @ torch.tensor([[0.1, 0.2], [0.3, 0.4]]),
    "view of bits": lambda x: x.view(torch.int64),
    "complex": lambda x: torch.complex(x, x).abs(),
    "to, copied": written(lambda y: y.to(torch.float64, copy=True).mul_(2)),
}

IN_PLACE: dict[str, Function] = {
    **{
        f"{code}": statement(f"y = x.clone(); {code}")
        for code in (
            *("y += 1", "y *= 2", "y -= x", "y /= 3", "y **= 2", "y @= W", "y[0] = 1", "y[:, 1] += 2", "y[y > 0] = 0"),
            *("y.add_(1)", "y.mul_(x)", "y.zero_()", "y.fill_(0.3)", "y.copy_(2 * x)", "y.clamp_(0, 1)", "y.relu_()"),
            *("y.T.add_(1)", "y.T[0] = 3", "v = y[0]; v += 1", "v = y.view(-1); v += 1", "v = y.data; v += 1"),
            *("v = y.detach(); v *= 2", "v = y.T.contiguous(); v += 1", "v = y.reshape(3, 4); v += 1; y = y * 1"),
            *("v = y.contiguous(); v += 1", "v = y.flatten(); v += 1", "v = y[[0, 1]]; v += 1", "v = y[:]; v += 1"),
            *("v = y.expand(4, 3); y += 1; y = v", "v = y; v += 1", "v = y * 1; v += 1", "v = y.clone(); v += 1"),
            *("v = y.to(torch.float64); v += 1", "v = y.double(); v += 1", "v = copy.copy(y); v += 1"),
            *("v = copy.deepcopy(y); v += 1", "v = y.squeeze(); v += 1", "v = y.unsqueeze(0); v += 1"),
            *("v, w, u = y.unbind(1); v += 1", "v = y.chunk(3, 1)[0]; v += 1", "v = y.diagonal(); v += 1"),
            *("torch.add(x, 1, out=y)", "torch.mul(x, 2, out=y[:])", "torch.relu_(y)", "F.relu(y, inplace=True)"),
            *("F.relu(y, True)", "F.elu(y, inplace=True)", "F.hardtanh(y, inplace=True)", "F.silu(y, inplace=True)"),
            *("F.leaky_relu(y, 0.1, True)", "F.softplus(y)", "F.dropout(y, 0.5, False, True)", "torch.sin_(y)"),
            *("y.index_fill_(0, torch.tensor([0]), 1.0)", "y.masked_fill_(y > 0, 0.0)", "y.transpose_(0, 1); y = y.T"),
            *("y.unsqueeze_(0); y = y[0]", "y.resize_(2, 3)", "y.set_(x + 1)", "y.data = x * 2", "y.t_(); y = y.T"),
            *("w = torch.zeros(4, 3).double(); w += y; y = w", "w = torch.zeros(4, 3).double(); w[0] = y[0]; y = w"),
            *("w = torch.zeros(4, 3).double(); w.copy_(y); y = w", "y.index_add_(0, torch.tensor([0]), x[:1])"),
            *("v = y.T; y += 1; y = v.T", "v = y[0]; y = y + 1; v += 1", "y.swapaxes_(0, 1); y = y.T"),
            *(
                "v = list(y); v[0] += 1",
                "y.requires_grad_(); y = y * 2",
                "y.scatter_(1, torch.zeros(4, 1).long(), 9.0)",
            ),
            *("y.exp_()", "y.sub_(1).mul_(2)", "torch.nn.init.ones_(y)", "v = y.mT; v *= 2", "y.lerp_(x * 2, 0.5)"),
            *("y.addmm_(x, W)", "y.cumsum_(0)", "y.sort(0)", "y.random_()", "y.normal_()", "y.uniform_()"),
        )
    },
}

NORMS: dict[str, Function] = {
    **{
        f"{kind}, {order!r}, {dim!r}": make(order, dim)
        for order in (None, 1, 2, 2.0, 3, 0, -1, -2, math.inf, -math.inf, "fro", "nuc")
        for dim in (None, 0, 1, (0, 1))
        for kind, make in {
            "linalg.norm": lambda order, dim: lambda x: torch.linalg.norm(x, order, dim=dim),
            "vector_norm": lambda order, dim: lambda x: torch.linalg.vector_norm(x, order, dim=dim),
            "matrix_norm": lambda order, dim: lambda x: torch.linalg.matrix_norm(x, order, dim=dim or (-2, -1)),
            "norm": lambda order, dim: lambda x: torch.norm(x, order, dim=dim),
            ".norm": lambda order, dim: lambda x: x.norm(p=order, dim=dim, keepdim=True),
            "normalize": lambda order, dim: lambda x: F.normalize(x, p=order, dim=dim),
        }.items()
    },
    "cond": lambda x: torch.linalg.cond(x.T @ x),
    "cdist": lambda x: torch.cdist(x, x),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(1), dim=1),
    "renorm": lambda x: torch.renorm(x, 2, 0, 0.5),
}


def branch_on_type(x: Any) -> Any:
    return x.sin() if type(x) is torch.Tensor else x.cos()


def swallowed_error(x: Any) -> Any:
    try:
        return x.sort(dim=1).values
    except Exception:
        return x


def changed_from_call(first: int) -> Function:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x if len(calls) < first else 2 * x

    return function


def mutated_constant() -> Function:
    weights = torch.ones(3, dtype=torch.float64)

    def function(x: Any) -> Any:
        y = x * weights
        weights.mul_(-1)
        return y

    return function


TRICKS: dict[str, Function] = {
    "type": branch_on_type,
    "isinstance": lambda x: x.sin() if isinstance(x, torch.Tensor) else x.cos(),
    "is_tensor": lambda x: x.sin() if torch.is_tensor(x) else x.cos(),
    "class name": lambda x: x.sin() if x.__class__.__name__ == "Tensor" else x.cos(),
    "hasattr": lambda x: x.sin() if hasattr(x, "grad_fn") else x.cos(),
    "dtype asked": lambda x: x * (2 if x.dtype == torch.float64 else 3),
    "device asked": lambda x: x * (2 if x.device.type == "cpu" else 3),
    "requires_grad asked": lambda x: x * (2 if x.requires_grad else 3),
    "grad mode asked": lambda x: x * (2 if torch.is_grad_enabled() else 3),
    "repr": lambda x: x * len(repr(x)),
    "error": swallowed_error,
    "another at call 9": changed_from_call(9),
    "another at call 3": changed_from_call(3),
    "mutated constant": mutated_constant(),
    "item": lambda x: x * x[0, 0].item(),
    "tolist": lambda x: torch.tensor(x.tolist()) * 2,
    "float": lambda x: x * float(x[0, 0]),
    "any": lambda x: x if (x > 0).any() else -x,
    "all": lambda x: x if bool((x > -100).all()) else -x,
    "sum of a mask": lambda x: x * (x > 0).sum(),
    "numpy": lambda x: torch.from_numpy(np.sin(x.numpy())),
    "numpy of constants": lambda x: x * torch.from_numpy(np.sin(np.arange(3.0))),
    "no_grad": statement("with torch.no_grad(): y = x * 2"),
    "autograd": lambda x: torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0],
    "func.grad": lambda x: torch.func.grad(lambda z: (z**2).sum())(x),
    "vmap": lambda x: torch.vmap(torch.sin)(x),
    "random": lambda x: x + torch.rand(3),
    "random, seeded": statement("torch.manual_seed(0); y = x * torch.rand(3)"),
    "where": lambda x: torch.where(x > 0, x.sqrt(), 0 * x),
    "where of constants": lambda x: torch.where(ROW > 0, x, x.exp()),
    "where of two": lambda x: torch.where(ROW > 0, x, torch.tensor(2.0)),
    "clamp turned": lambda x: x.clamp(0.5, -0.5),
    "clamp of tensors": lambda x: x.clamp(torch.tensor(0.5), torch.tensor(-0.5)),
    "clamp to one number": lambda x: x.clamp(0.3, 0.3),
    "max of max": lambda x: x.amax((0, 1), keepdim=True) + x.amin(0, keepdim=True),
    "ties": lambda x: torch.maximum(x, x) + torch.stack([x, x]).amax(0),
    "cancelling": lambda x: (x + 1e8) - 1e8,
    "cancelling products": lambda x: (x * 1e8 + 1) - x * 1e8,
    "einsum, diagonal": lambda x: torch.einsum("ii->i", x[:3]),
    "einsum, trace": lambda x: torch.einsum("ii->", x[:3]),
    "einsum, dots": lambda x: torch.einsum("...i,i->...", x, ROW),
    "einsum, three": lambda x: torch.einsum("ni,ij,j->n", x, W, ROW),
    "einsum, lists": lambda x: torch.einsum(x, [0, 1], W, [1, 2], [0, 2]),
    "einsum, implicit": lambda x: torch.einsum("ij,jk", x, W),
    "einsum, outer": lambda x: torch.einsum("i,j->ij", x[0], x[1]),
    "einsum, output twice": lambda x: torch.einsum("i->ii", x[0]),
    "broadcast over tokens": lambda x: x + x[:, :1].T.sum() + torch.arange(4.0)[:, None],
    "broadcast to more": lambda x: (x[None] * x[:, None]).sum((0, 1)),
    "index by a mask": lambda x: x[:, ROW > 0],
    "index by numbers": lambda x: x[[3, 0, 0], [1, 1, 2]],
    "index by a tensor": lambda x: x[torch.tensor([[0, 1], [2, 3]])],
    "index by None and dots": lambda x: x[..., None, 0],
    "index by steps": lambda x: x[::2, 1:],
    "index from behind": lambda x: x[-2:, -1],
    "index by itself": lambda x: x[(x[:, 0] > 0).nonzero()],
    "unbind and sum": lambda x: sum(x.unbind(1)),
    "python max": lambda x: torch.stack([max(row) for row in x]),
    "sorted": lambda x: torch.stack(sorted(x.unbind(1))),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(2, 1).values,
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "floor": lambda x: x // 0.5,
    "remainder": lambda x: x % 0.3,
    "fmod": lambda x: torch.fmod(x, 0.3),
    "remainder of negatives": lambda x: torch.remainder(-x, 0.3),
    "rounding": lambda x: x.round(decimals=1),
    "frac": lambda x: x.frac(),
    "bits": lambda x: torch.nextafter(x, x + 1),
    "signbit": lambda x: torch.copysign(x, -x),
    "stored on the tensor": statement("x.foo = 2.0; y = x * x.foo"),
    "version": lambda x: x * (x._version + 1),
    "stride": lambda x: x * x.stride(0),
    "numel": lambda x: x * x.numel() + len(x) + x.shape[1] + x.ndim + x.size(0),
    "softplus, high": lambda x: F.softplus(40 * x),
    "softplus, threshold": lambda x: F.softplus(x, threshold=0.1),
    "softplus, beta": lambda x: F.softplus(x, beta=30.0),
    "softplus, high threshold": lambda x: F.softplus(40 * x, threshold=50),
    "steep softmax": lambda x: torch.softmax(500 * x, 1),
    "steep sigmoid": lambda x: torch.sigmoid(800 * x) + torch.tanh(800 * x),
    "large exp": lambda x: torch.exp(300 * x),
    "small numbers": lambda x: x * 1e-200 * 1e-200,
    "logsumexp of all": lambda x: torch.logsumexp(100 * x, (0, 1)),
    "variance of equals": lambda x: (x[:, :1].expand(4, 3) + 1e6).var(1),
    "layer norm of equals": lambda x: F.layer_norm(x[:, :1].expand(4, 3) * 1e-3 + 1, (3,)),
    "batch norm in training": lambda x: F.batch_norm(x, None, None, training=True),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(4, 4).double()),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "scan": statement("h = x[0]\nfor t in range(1, 4): h = torch.tanh(h + x[t])\ny = h"),
    "global generator": lambda x: x * (1 + 0 * torch.randn(1).item()),
}

_MODULES: tuple[tuple[Any, ...], ...] = ((), (3,), (3, 3), (2,), (1,), (1, 3), ((3,),), (0.3, 0.1), (3, 3, 1), (3, 1))


def module_expressions() -> dict[str, Function]:
    """Every module of torch.nn with arguments that make it run on (4, 3), in train and in eval mode."""
    found: dict[str, Function] = {}
    for name in sorted(vars(nn)):
        made = getattr(nn, name)
        if not (isinstance(made, type) and issubclass(made, nn.Module)) or name in ("Module", "DataParallel"):
            continue
        for args in _MODULES:
            module = _running(made, args)
            if module is not None:
                found[f"{name}{args}"] = module.eval()
                found[f"{name}{args}, training"] = copy.deepcopy(module).train()
                break
    return found


def _running(made: Any, args: tuple[Any, ...]) -> nn.Module | None:
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            module = made(*args).double().eval()
            return module if isinstance(module(torch.ones(4, 3, dtype=torch.float64)), torch.Tensor) else None
        except Exception:  # whatever it raises: it is not for these arguments or inputs
            return None


EXPRESSIONS = {
    f"{kind}: {name}": function
    for kind, functions in (("cast", CASTS), ("in place", IN_PLACE), ("norm", NORMS), ("trick", TRICKS))
    for name, function in functions.items()
}
