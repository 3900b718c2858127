"""Mutations of saved files: bytes, plain data, and networks and certificates in good order that may be false.

For `fuzz_files.py`. File k depends on the seed and on k alone.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load as tensors_of
from safetensors.numpy import save

import weightwright as ww
from weightwright.box import Box
from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.checker.one_layer.stored_vector import read_vector_head
from weightwright.claims.certificate import Certificate, local_formula, sampled_in_words, vector_formula
from weightwright.claims.files import encode_file, network_digest, read
from weightwright.claims.kinds import ComposedClaim
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.memory_claim import MemoryClaim, memory_in_words
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.target import Composite
from weightwright.expressions import parse, to_text
from weightwright.interpreter.frozen_module import Sizes, build_module
from weightwright.network import Network
from weightwright.network.storage import NETWORK_TYPES, ArrayReader, decode, digest, in_json
from weightwright.numbers import rounded
from weightwright.papers.checker.side_by_side import split
from weightwright.papers.claims.cell_grid import GridClaim
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim

ROOT = Path(__file__).parents[1]
SAVED = (ROOT / "tests" / "claims" / "saved", ROOT / "tests" / "papers" / "claims" / "saved")
FOLDER = ROOT / "build" / "fuzz"
KEY = "weightwright"
Rng = np.random.Generator
#: What mutations raise that make no network or no file at all; another one is drawn then.
UNWRITABLE = (
    ww.WeightwrightError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError,
)  # fmt: skip


# what is mutated


@cache
def saved_files() -> dict[str, bytes]:
    paths = [path for folder in SAVED for path in folder.glob("*.safetensors")]
    return {path.stem: path.read_bytes() for path in sorted(paths, key=lambda path: path.name)}


def makers() -> dict[str, Callable[[], Any]]:
    """Kinds that the saved files lack: dtypes, kinks, windows, grids, prompts, graphs of all kinds of column, jumps."""
    sys.path.append(str(ROOT / "tests"))
    from papers.support.grids import GRIDS, SIDES
    from papers.support.grids import made as forged
    from support.prompts import made as prompted

    f32, bf16, unit = torch.float32, torch.bfloat16, (-1, 1)
    two = ww.Box([-1] * 2, [1] * 2)
    return {
        "sine, float32": lambda: ww.approximate("sin(x)", unit, 1e-3, dtype=f32),
        "sine, bfloat16": lambda: ww.approximate("sin(x)", unit, 0.25, dtype=bf16),
        "shifted": lambda: ww.approximate("exp(x)", (1, 2), 1e-2),
        "relu, self": lambda: ww.approximate("relu(x)", unit, 1e-2, sees="self"),
        "abs, registers, float32": lambda: ww.approximate("abs(x)", unit, 0.05, dtype=f32),
        "clip, self": lambda: ww.approximate("clip(x, -0.5, 0.5)", unit, 1e-2, sees="self"),
        "nearest": lambda: ww.approximate("sin(x)", unit, 0.2, method="faithful"),
        "window": lambda: ww.approximate("sin(x)", unit, 1e-2, kernel="anchor"),
        "window, float32": lambda: ww.approximate("sin(x)", unit, 1e-2, kernel="anchor", dtype=f32),
        "two steps": lambda: ww.approximate("step(x + 0.5) - 2*step(x - 0.5)", unit, 1e-2, dead_zone=0.05),
        "sampled": lambda: ww.approximate(lambda x: np.sin(x), unit, 0.1, derivative_bound=(2, 1.0)),
        "product of two": lambda: ww.approximate("x*y", ww.Box([-1, -1], [1, 1]), 0.2),
        "softmax": lambda: ww.compile(lambda x: torch.softmax(x, -1), ww.Box([-1] * 2, [1] * 2), 0.05),
        "product": lambda: ww.compile(lambda x: x[..., :1] * x[..., 1:], ww.Box([-1] * 2, [1] * 2), 0.05),
        "norm": lambda: ww.compile(
            lambda x: x / torch.sqrt(1.0 + (x * x).sum(-1, keepdim=True)), ww.Box([-1] * 2, [1] * 2), 0.05),
        "mean of tokens": lambda: ww.compile(
            lambda x: torch.tanh(x + x.mean(-2, keepdim=True)), ww.Box([-1.0], [1.0]), 0.05, tokens=2),
        "attention": lambda: ww.compile(
            lambda x: torch.softmax(x @ x.mT, -1) @ x, ww.Box([-1.0] * 2, [1.0] * 2), 1e-6, tokens=2),
        "causal attention, float32": lambda: ww.compile(
            lambda x: torch.nn.functional.scaled_dot_product_attention(x, 2 * x, x, is_causal=True),
            ww.Box([-1.0], [1.0]), 1e-3, tokens=3, dtype=f32),
        "compiled, float32": lambda: ww.compile(lambda x: torch.tanh(2 * x) + x, unit, 0.01, dtype=f32),
        "ablatable": lambda: ww.compile(
            lambda x: torch.exp(torch.sigmoid(x[..., :1]) + torch.abs(x[..., 1:])), ww.Box([-1] * 2, [1] * 2), 0.05,
            ablatable=True),
        "ablatable product": lambda: ww.compile(
            lambda x: torch.tanh(torch.sin(x[..., :1]) * torch.sin(x[..., 1:])), ww.Box([-1] * 2, [1] * 2), 0.05,
            ablatable=True),
        "truncated": lambda: ww.constructions.truncated_linear([[1.0], [-1.0]], [0.1, 0.1], -1.0, 1.0, unit, p=8),
        "memory": lambda: ww.memorize([["a", "b", "c"], ["b", "a"], ["c"]], [[0, 1, 2], [2, 0], [1]]),
        "memory, plain": lambda: ww.memorize([["a", "b"], ["b", "a"]], [[0, 1], [2, 0]], kernel="plain"),
        "memory, sets, float32": lambda: ww.memorize(
            [[0, 1], [1, 2], [2]], [["X", "Y"], ["Z", "X"], ["Y"]], positions=False, dtype=f32),
        "memory of vectors, causal": lambda: ww.memorize(
            [[[0.5, 1.0], [-1.0, 2.0]], [[-1.0, 2.0]]], [[0, 1], [1]], mask="causal"),
        "measured": lambda: ww.approximate("sin(x)", unit, 1e-2, proof="measured"),
        **{f"grid, {name}": (lambda name=name: forged(name)) for name in GRIDS},
        **{f"side by side, {name}": (lambda name=name: forged(name)) for name in SIDES},
        **{f"prompt, {name}": (lambda name=name: prompted(name, "float64")) for name in (
            "gradients", "descent", "heavy ball", "threshold", "clock", "faithful", "read-out", "read-out of p")},
        **{f"interpreter, {form}, {name}": (
            lambda form=form, name=name: ww.Interpreter(3, 2, 2, heads=2, form=form, dtype=name, anchors=6).net
        ) for form in ("embedding", "stacked") for name in ("float64", "float32")},
        **{f"keys that are tokens, {name}": (lambda name=name: ww.constructions.literal_truncated_linear(
            -0.5, 1.0, 3, 2, H=2, dtype=name)) for name in ("float64", "float32")},
        "prompt, float32": lambda: prompted("descent", "float32"),
        "states of their own": lambda: ww.incontext.causal_learner(1, 2, 2, domain=(1.0, 1.0, 2.0), tol=1e-3).net,
        "states of their own, float32": lambda: ww.incontext.causal_learner(
            1, 2, 2, domain=(1.0, 1.0, 2.0), tol=1e-3, dtype=f32).net,
        "jump": lambda: ww.compile(lambda x: torch.sign(x) * (x + 2), unit, 1e-2, dead_zone=0.004),
        "jump, float32": lambda: ww.compile(lambda x: torch.sign(x - 0.25) + x, unit, 1e-2, dead_zone=0.004, dtype=f32),
        "jumps of two numbers": lambda: ww.compile(
            lambda x: torch.where(x[..., :1] < x[..., 1:], x[..., :1] - 2, x[..., 1:]), two, 1e-2, dead_zone=0.01),
        "jump of a function": lambda: ww.compile(
            lambda x: torch.sign(torch.tanh(2 * x[..., :1]) + x[..., 1:]), two, 1e-2, dead_zone=0.05),
        "jump of a mean of tokens": lambda: ww.compile(
            lambda x: torch.sign(x.mean(-2, keepdim=True) + x), ww.Box([-1.0], [1.0]), 1e-2, tokens=2, dead_zone=0.004),
        "truncated, with zones": lambda: ww.constructions.truncated_linear(
            [[1.0, 0.5], [-1.0, 0.25]], [0.1, 0.1], -1.0, 0.5, unit, p=6, G=[0, 0, 1, 1, 1, 0], dead_zone=0.02),
        "interpreter, loop": lambda: ww.Interpreter(2, 1, 1, programs=2, anchors=6).net,
        "interpreter, loop, stacked": lambda: ww.Interpreter(2, 1, 1, programs=3, anchors=6, form="stacked").net,
    }  # fmt: skip


@cache
def seeds(everything: bool) -> dict[str, bytes]:
    """Small files; everything: networks are built, too, which takes a minute, and kept in build/fuzz."""
    files = dict(saved_files())
    if everything:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, make in makers().items():
            path = FOLDER / f"seed {name}.safetensors"
            if not path.exists():
                net = make()
                path.write_bytes(encode_file(net.network, net.certificate))
        files |= {path.stem[5:]: path.read_bytes() for path in sorted(FOLDER.glob("seed *.safetensors"))}
    return files


@cache
def objects(name: str, everything: bool) -> tuple[Network, Certificate | None]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        path.write_bytes(seeds(everything)[name])
        return read(path)


# values


ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 10**30, -(2**63), 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e308,
    1e16, -1.0, "", "x", "nan", "sin(x)", "\x00", "x" * 3000, [], {}, [[]], [1.5], {"item": 0}, {"array": 0},
    {"float": "inf"}, {"float": "nan"}, {"float": "-inf"}, {"item": -1}, {"item": 10**6}, {"array": -1},
    {"type": "Leaf"}, {"float": "0x1.0p+0"}, {"float": "0x1p+99999"}, {"array": "network.registers"},
]  # fmt: skip
FORMULAS = [
    "sin(x)", "cos(x)", "x", "-x", "x**2", "1/x", "exp(exp(exp(x)))", "x**1e300", "9**9**9", "1e400", "1e999999999",
    "0*x", "sqrt(x)", "log(x)", "abs(x)", "max(x, -x)", "tan(x)", "1/(x-x)", "0/0", "sign(x)", "step(x)", "s", "s0*s1",
    "(" * 90 + "x" + ")" * 90, "(" * 3000, "x+" * 1500 + "x", "abs(" * 40 + "x" + "-1)" * 40, "x**0.5", "x**-1",
    "2**x**2", "erf(x)*1e300", "x*1e-300", "pi", "relu(x)", "clip(x, -1, 1)", "clip(s, 0, 1)", "gelu(x)", "x0 + x1",
]  # fmt: skip
SWAPS = [
    ("sin", "cos"), ("cos", "sin"), ("tanh", "atan"), ("x", "(x)"), ("+", "-"), ("-", "+"), ("2", "3"), ("*", "+"),
    ("0.5", "0.25"), ("exp", "sinh"), ("relu", "abs"), ("abs", "relu"), ("x", "2*x"), ("x0", "x1"), ("clip", "min"),
]  # fmt: skip


def moved(number: float, rng: Rng) -> float:
    with np.errstate(all="ignore"):
        choices = [
            number * 2.0, number / 2, -number, number + 1.0, number - 1.0, number * (1 + 2.0**-52), number * 1.001,
            np.nextafter(number, np.inf), np.nextafter(number, -np.inf), 0.0, 1.0, number * 10.0, number * 1e6,
            number * 1e-6, math.inf, math.nan, 1e308, 5e-324, number + 0.01 * rng.normal(), float(np.float32(number)),
        ]  # fmt: skip
        return float(choices[int(rng.integers(len(choices)))])


def moved_array(array: np.ndarray, rng: Rng) -> np.ndarray:
    """Other values, or another shape."""
    new, kind = np.array(array), int(rng.integers(12))
    if kind < 6 and new.size:
        place = int(rng.integers(new.size))
        if new.dtype == bool:
            new.flat[place] ^= True
        elif new.dtype == np.float64:
            new.flat[place] = moved(float(new.flat[place]), rng)
        else:
            new.flat[place] += int(rng.integers(-3, 4))
    elif kind == 6 and new.ndim:
        new = new[: int(rng.integers(len(new) + 1))]
    elif kind == 7 and new.ndim:
        new = np.concatenate([new, new[:1]])
    elif kind == 8 and new.dtype == np.float64:
        new = new * (1 + 1e-3 * rng.normal(size=new.shape))
    elif kind == 9:
        new = new.T.copy() if new.ndim == 2 else new.reshape(-1)
    elif kind == 10 and new.dtype == np.float64:
        new = new * 2.0 ** int(rng.integers(-3, 4))
    elif kind == 11 and new.dtype == np.float64:
        new = new.astype(rng.choice([np.float32, np.int32, np.bool_, np.float16]))
    return new


# mutations of plain data: whatever a file can hold


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    for step in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found += places(value[step], (*path, step))
    return found


def mutate_plain(payload: dict[str, Any], arrays: dict[str, np.ndarray], rng: Rng, other: Any) -> None:
    """One change somewhere in the text or in the tensors."""
    if arrays and rng.random() < 0.3:
        name = str(rng.choice(sorted(arrays)))
        kind = int(rng.integers(5))
        if kind == 0:
            del arrays[name]
        elif kind == 1:
            arrays[name + "2"] = arrays[name]
        else:
            arrays[name] = moved_array(arrays[name], rng)
        return
    paths = places(payload)
    path = paths[int(rng.integers(1, len(paths)))]
    owner = payload
    for step in path[:-1]:
        owner = owner[step]
    last, old = path[-1], owner[path[-1]]
    kind = int(rng.integers(10))
    if kind == 0:
        del owner[last]
    elif kind == 1 and isinstance(owner, list):
        owner.insert(last, old)
    elif kind == 1:
        owner[str(last) + "_"] = old
    elif kind == 2 and isinstance(owner, list) and owner:
        j = int(rng.integers(len(owner)))
        owner[last], owner[j] = owner[j], owner[last]
    elif kind == 3:
        among = places(other)
        piece = other
        for step in among[int(rng.integers(len(among)))]:
            piece = piece[step]
        owner[last] = json.loads(json.dumps(piece))
    elif kind == 4:
        owner[last] = [old] * int(rng.integers(2, 50))
    elif kind == 5:
        for _ in range(int(rng.integers(1, 300))):
            old = [old]
        owner[last] = old
    elif kind < 8 and isinstance(old, bool | int | float):
        large = int(rng.choice([100, 4096, 10**5, 2**20, 2**27])) if rng.random() < 0.2 else int(rng.integers(-2, 3))
        owner[last] = moved(float(old), rng) if isinstance(old, float) else int(old) + large
    elif kind < 8 and isinstance(old, str):
        swap = SWAPS[int(rng.integers(len(SWAPS)))]
        owner[last] = old.replace(*swap) if rng.random() < 0.5 else FORMULAS[int(rng.integers(len(FORMULAS)))]
    else:
        owner[last] = ODD[int(rng.integers(len(ODD)))]


def mutated_plain(name: str, rng: Rng, everything: bool) -> bytes:
    names = sorted(seeds(everything))
    payload, arrays = _taken_apart(seeds(everything)[name])
    other, _ = _taken_apart(seeds(everything)[names[int(rng.integers(len(names)))]])
    for _ in range(1 + int(rng.geometric(0.5))):
        mutate_plain(payload, arrays, rng, other)
        if not isinstance(payload, dict) or len(places(payload)) < 2:
            break
    return _put_together(payload, arrays)


def _taken_apart(contents: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header = json.loads(contents[8 : 8 + int.from_bytes(contents[:8], "little")])
    return json.loads(header["__metadata__"][KEY]), tensors_of(contents)


def _put_together(payload: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """With digests that fit, as far as there are any to be taken."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        payload.pop("digest", None)
        _rename(payload, arrays)
        payload["digest"] = digest(payload, arrays)
        return bytes(save(arrays, metadata={KEY: in_json(payload)}))
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError, IndexError):
        return bytes(save(arrays, metadata={KEY: json.dumps(payload, default=str)}))


def _rename(payload: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """The certificate is about the network as it is now."""
    try:
        network = decode(payload["network"], ArrayReader(payload["arrays"], arrays), NETWORK_TYPES, Network)
        kinds = payload["certificate"]["types"]
        (row,) = [row for row in payload["certificate"]["items"] if kinds[row[0]][0] == "Certificate"][-1:]
        row[kinds[row[0]].index("network")] = network_digest(network)
    except (ww.WeightwrightError, ValueError, TypeError, KeyError, IndexError):
        pass


# mutations of what is meant: networks and certificates in good order that may be false


def parts_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Every part of nested dataclasses and tuples, with its path."""
    found = [(path, value)]
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found += parts_of(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for i, item in enumerate(value[:40]):
            found += parts_of(item, (*path, i))
    return found


def altered(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(path[0], int):
        return (*value[: path[0]], altered(value[path[0]], path[1:], new), *value[path[0] + 1 :])
    return dataclasses.replace(value, **{path[0]: altered(getattr(value, path[0]), path[1:], new)})


def other_value(value: Any, rng: Rng, pool: dict[str, list[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        alike = [a for a in pool.get("ndarray", []) if a.shape == value.shape]
        return moved_array(value, rng) if rng.random() < 0.8 or not alike else alike[int(rng.integers(len(alike)))]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + (int(rng.choice([100, 4096, 2**20])) if rng.random() < 0.1 else int(rng.integers(-2, 3)))
    if isinstance(value, float):
        return moved(value, rng)
    if isinstance(value, str):
        swap = SWAPS[int(rng.integers(len(SWAPS)))]
        return value.replace(*swap) if rng.random() < 0.7 else FORMULAS[int(rng.integers(len(FORMULAS)))]
    if isinstance(value, tuple) and value:
        i = int(rng.integers(len(value)))
        choices = [value[:i] + value[i + 1 :], (*value, value[i]), value[::-1], ()]
        return choices[int(rng.integers(len(choices)))]
    alike = pool.get(type(value).__name__, [value])
    return alike[int(rng.integers(len(alike)))]


@cache
def pieces(everything: bool) -> dict[str, list[Any]]:
    """Parts of all files by type: what may be put in the place of another."""
    found: dict[str, list[Any]] = {}
    for name in sorted(seeds(everything)):
        for _, part in parts_of(objects(name, everything)):
            if not isinstance(part, tuple | str | int | float | None):
                found.setdefault(type(part).__name__, []).append(part)
    return found


def everywhere(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same with every number, text and array changed."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: everywhere(getattr(value, name), change) for name in names})
    if isinstance(value, tuple):
        return tuple(everywhere(item, change) for item in value)
    return change(value)


def loosened(certificate: Certificate, factor: float) -> Certificate:
    """All errors and slopes that are claimed, times a factor: what is accepted then must be true."""
    names = ("approximation", "leakage", "rounding", "bound", "lipschitz", "core", "shell", "error", "exceptional")

    def walk(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            new = {
                name: item * factor if name in names and isinstance(item, float | np.ndarray) else walk(item)
                for name, item in fields.items()
            }
            return dataclasses.replace(value, **new)
        return tuple(walk(item) for item in value) if isinstance(value, tuple) else value

    return walk(certificate)  # type: ignore[no-any-return]


def consistent(network: Network, certificate: Certificate) -> Certificate:
    """Digest and words made to fit, so that only what matters is wrong."""
    claim, words = certificate.claim, certificate.formula
    if isinstance(claim, ComposedClaim | GridClaim):
        words = claim.in_words()
    elif isinstance(claim, MemoryClaim):
        words = memory_in_words(claim, network)
    elif isinstance(claim, SampledClaim):
        words = sampled_in_words(claim.samples)
    elif isinstance(claim, OneLayerClaim | VectorLayerClaim) and hasattr(claim.leaf, "formula"):
        claim = dataclasses.replace(claim, leaf=dataclasses.replace(claim.leaf, formula=_local(network, certificate)))
    elif isinstance(claim, SideBySideClaim):
        claim, words = _side_by_side(network, certificate, claim)
    said = zone_lines(dataclasses.replace(certificate, claim=claim))
    said += claim.stated if isinstance(claim, GridClaim | SampledClaim) else ()
    said += tuple(line for line in certificate.assumptions if line not in said and not line.startswith(_OF_ZONES))
    return dataclasses.replace(
        certificate, claim=claim, formula=words, network=network_digest(network), assumptions=said
    )


#: How the lines about dead zones begin, in x and in arguments.
_OF_ZONES = ("x does not lie between", "nothing is claimed where the argument")


def zone_lines(certificate: Certificate) -> tuple[str, ...]:
    """What a certificate has to say of its dead zones."""
    claim = certificate.claim
    if isinstance(claim, OneLayerClaim):
        return claim.possible_assumptions(certificate.domain)
    if isinstance(claim, Composite):
        return claim.left_out
    if isinstance(claim, LoopClaim):
        return claim.composite.left_out + (claim.beginning.composite.left_out if claim.beginning else ())
    return ()


def _side_by_side(network: Network, certificate: Certificate, claim: SideBySideClaim) -> tuple[SideBySideClaim, str]:
    """Every part has its own digest and formula, and the words of all."""
    formulas = [part.certificate.formula for part in claim.parts]
    words = formulas[0] if len(formulas) == 1 else f"({', '.join(formulas)})"
    try:
        each = list(split(network, dataclasses.replace(certificate, formula=words), claim))
    except (ww.WeightwrightError, ValueError, IndexError):
        return claim, words
    parts = tuple(
        dataclasses.replace(part, certificate=consistent(alone, said))
        for part, (alone, said) in zip(claim.parts, each, strict=True)
    )
    return SideBySideClaim(parts), words


def widened(value: Any, factor: float) -> Any:
    """All intervals and boxes that are claimed, wider or narrower; the new ends are in a box of their own."""
    if isinstance(value, Box):
        return Box(value.lo * factor, value.hi * factor)
    if isinstance(value, Leaf):
        boxes = np.concatenate([value.boxes, [[value.lo * factor, value.hi * factor]]])
        return dataclasses.replace(value, lo=value.lo * factor, hi=value.hi * factor, boxes=boxes)
    if isinstance(value, VectorLeaf):
        boxes = np.concatenate([value.boxes, [[value.lo * factor, value.hi * factor]]])
        return dataclasses.replace(value, lo=value.lo * factor, hi=value.hi * factor, boxes=boxes)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: widened(getattr(value, name), factor) for name in names})
    return tuple(widened(item, factor) for item in value) if isinstance(value, tuple) else value


def _local(network: Network, certificate: Certificate) -> str:
    try:
        if isinstance(certificate.claim, OneLayerClaim):
            one = read_one_layer(network)
            return to_text(local_formula(parse(certificate.formula), one.centre, one.scale, one.mean))
        many = read_vector_head(network)
        names = tuple("xyz"[: len(network.inputs)])
        return to_text(vector_formula(parse(certificate.formula, names), many.centres, many.scales, many.mean))
    except (ww.WeightwrightError, ValueError, ArithmeticError):
        return str(getattr(certificate.claim, "leaf").formula)  # noqa: B009


def nudged(whole: tuple[Network, Certificate], rng: Rng) -> tuple[Network, Certificate]:
    """Numbers that no structure depends on, since they are no powers of two, moved a little: in tables and targets."""
    found = [(path, part) for path, part in parts_of(whole) if getattr(part, "dtype", None) == np.float64]
    free = [(path, part) for path, part in found if _free(part).any() and "domain" not in path and "boxes" not in path]
    path, array = free[int(rng.integers(len(free)))]
    size = 10.0 ** rng.uniform(-6, 0)
    at = _free(array) & (rng.random(array.shape) < rng.choice([0.1, 1.0]))
    new = np.where(at, array * (1 + size * rng.uniform(-1, 1, array.shape)), array)
    both: tuple[Network, Certificate] = altered(whole, path, rounded(new, whole[0].dtype))
    return rebuilt(*both)


def rebuilt(network: Network, certificate: Certificate) -> tuple[Network, Certificate]:
    """An interpreter is its tables: with other ones it is built anew, so that only they may be wrong."""
    claim = certificate.claim
    if not isinstance(claim, InterpreterClaim):
        return network, certificate
    sizes = Sizes(claim.tokens, claim.features, claim.head_dim, claim.heads, claim.stacked, claim.times)
    return build_module(sizes, claim, network.dtype), certificate


def _free(array: np.ndarray) -> np.ndarray:
    return np.isfinite(array) & (np.abs(np.frexp(array)[0]) != 0.5) & (array != 0)


def mutated_meaning(name: str, rng: Rng, everything: bool) -> bytes:
    network, certificate = objects(name, everything)
    pool = pieces(everything)
    if certificate is not None and rng.random() < 0.4:
        network, certificate = nudged((network, certificate), rng)
        certificate = loosened(certificate, float(10.0 ** rng.uniform(0, 8)))
        if rng.random() < 0.5:
            return encode_file(network, consistent(network, certificate))
    for _ in range(int(rng.geometric(0.6))):
        if certificate is not None and rng.random() < 0.25:  # one text or number everywhere, or another domain
            kept, kind = certificate.assumptions, int(rng.integers(3))
            if kind == 0:
                swap = SWAPS[int(rng.integers(len(SWAPS)))]
                certificate = everywhere(certificate, lambda v, s=swap: v.replace(*s) if isinstance(v, str) else v)
                certificate = dataclasses.replace(certificate, assumptions=kept)
            elif kind == 1:
                certificate = widened(certificate, float(rng.choice([0.5, 1.001, 1.25, 2.0, 16.0])))
            else:
                numbers = [v for _, v in parts_of(certificate) if isinstance(v, float)]
                one = numbers[int(rng.integers(len(numbers)))]
                new = moved(one, rng)
                certificate = everywhere(
                    certificate, lambda v, a=one, b=new: b if isinstance(v, float) and v == a else v
                )
            continue
        whole = (network, certificate)
        candidates = parts_of(whole)
        floats = [c for c in candidates if isinstance(c[1], np.ndarray | float)]
        chosen = floats if floats and rng.random() < 0.5 else candidates
        path, value = chosen[int(rng.integers(len(chosen)))]
        network, certificate = altered(whole, path, other_value(value, rng, pool)) if path else whole
    if certificate is not None:
        if rng.random() < 0.6:
            certificate = loosened(certificate, float(10.0 ** rng.uniform(-1, 6)))
        if rng.random() < 0.9:
            certificate = consistent(network, certificate)
    return encode_file(network, certificate)


def mutated_bytes(name: str, rng: Rng, everything: bool) -> bytes:
    contents = bytearray(seeds(everything)[name])
    if rng.random() < 0.3:
        return bytes(contents[: int(rng.integers(len(contents)))])
    for _ in range(int(rng.geometric(0.4))):
        contents[int(rng.integers(min(len(contents), 4000)))] = int(rng.integers(256))
    return bytes(contents)
