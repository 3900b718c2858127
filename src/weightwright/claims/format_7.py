"""Files of format 7, read as what they would be today.

Every array was a tensor of its own, named by its path; network and certificate were nested: a dataclass was
{"type": its name, field: value, ...}, an array {"array": path}, a float {"float": its hexadecimal form}. A map on the
token axis was a matrix R, or with `blocks` one that acts on every block of tokens.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from weightwright.claims.certificate import Certificate
from weightwright.claims.old_certificates import upgrade_certificate
from weightwright.errors import FileFormatError
from weightwright.limits import tick
from weightwright.network import Attention, Block, Linear, Network, Sees, Term, token_map
from weightwright.network.field_types import agree_types
from weightwright.network.storage import BY_TYPE, DECODING_ERRORS, NETWORK_TYPES, malformed
from weightwright.numbers import Floats

Arrays = dict[str, Any]
Digest = Callable[[Network], str]


def read_old(
    payload: dict[str, Any], arrays: Arrays, digest: Digest, types: Mapping[str, type]
) -> tuple[Network, Certificate | None]:
    """The network and its certificate. digest: what a certificate calls its network by today. types: today's claims.

    A certificate that names its network by the digest of that time names it by today's; one that names another network
    still does, and no check agrees with it.
    """
    named: set[str] = set()
    network = _decode(payload.get("network"), arrays, named, OLD_NETWORK_TYPES, Network)
    claims = payload.get("certificate")
    certificate = None if claims is None else _certificate(payload, network, arrays, named, digest, types)
    for name in sorted(arrays.keys() - named):
        raise FileFormatError(f"the tensor {name!r} is held by no field")
    return network, certificate


def _certificate(
    payload: dict[str, Any],
    network: Network,
    arrays: Arrays,
    named: set[str],
    digest: Digest,
    types: Mapping[str, type],
) -> Certificate:
    claims = payload["certificate"]
    own = {name: array for name, array in arrays.items() if name.startswith("network.")}
    try:
        _rename(claims, old_digest(payload["network"], own), digest(network))
        if claims.get("parts"):
            for part, side in zip(claims["parts"], _side_networks(network, claims["parts"]), strict=True):
                _rename(part["certificate"], old_digest(*_encode(side)), digest(side))
    except DECODING_ERRORS as error:
        raise FileFormatError(f"the stored structure is not a Certificate: {error}") from error
    certificate: Certificate = _decode(upgrade_certificate(claims), arrays, named, types, Certificate)
    return certificate


def old_digest(structure: Any, arrays: Arrays) -> str:
    """SHA-256 of a JSON structure and its arrays, as it was then."""
    sha = hashlib.sha256(json.dumps(structure, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def _rename(claims: dict[str, Any], old: str, new: str) -> None:
    if claims.get("network") == old:
        claims["network"] = new


def _decode(
    structure: Any, arrays: Arrays, named: set[str], types: Mapping[str, Callable[..., Any]], expected: type
) -> Any:
    """named: the arrays that were asked for are added to it."""

    def value(item: Any) -> Any:
        if isinstance(item, list):
            return tuple(value(inner) for inner in item)
        if not isinstance(item, dict):
            return item
        if item.keys() == {"array"}:
            named.add(item["array"])
            return arrays[item["array"]]
        if item.keys() == {"float"}:
            return float.fromhex(item["float"])
        tick()
        given = {key: value(inner) for key, inner in item.items() if key != "type"}
        made = types[item["type"]](**given)
        agree_types(made, given, BY_TYPE)
        return made

    try:
        result = value(structure)
    except DECODING_ERRORS as error:
        raise malformed(error, expected) from error
    if not isinstance(result, expected):
        raise FileFormatError(f"the stored structure is a {type(result).__name__}, not a {expected.__name__}")
    return result


def _encode(network: Network) -> tuple[Any, Arrays]:
    """A network without maps on the token axis as it was written: what its digest was taken of."""
    arrays: Arrays = {}

    def plain(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        if isinstance(value, Term):
            A, S = plain(value.A, f"{path}.A"), plain(value.S, f"{path}.S")
            return {"type": "Term", "A": A, "R": None, "S": S, "blocks": False}
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return {"type": type(value).__name__} | {
                name: plain(getattr(value, name), f"{path}.{name}") for name in names
            }
        if isinstance(value, tuple):
            return [plain(item, f"{path}.{index}") for index, item in enumerate(value)]
        return {"float": float(value).hex()} if isinstance(value, float) else value

    return plain(network, "network"), arrays


def _side_networks(network: Network, parts: list[Any]) -> Iterator[Network]:
    """The networks that stand side by side in one layer, each taken by itself."""
    (layer,) = network.layers
    if not isinstance(layer, Attention):
        raise TypeError("networks stand side by side in a layer of heads")
    features = np.concatenate([term.A for term in network.embed.terms])
    outputs = np.concatenate([term.A for term in network.read.terms], axis=1)
    column, row, first = 0, 0, 0
    for k, part in enumerate(parts):
        block, rows = slice(column, column + part["width"]), slice(row, row + part["registers"])
        names = layer.coordinates[block]
        heads = tuple(
            dataclasses.replace(
                head,
                W_Q=head.W_Q[block],
                W_K=head.W_K[block],
                W_V=head.W_V[block],
                W_O=head.W_O[:, block],
                sees=Sees((head.sees.registers[0] - row, head.sees.registers[1] - row), head.sees.data),
            )
            for head in layer.heads[first : first + part["heads"]]
        )
        yield Network(
            inputs=tuple(f"x[{i}]" for i in range(len(features))),
            embed=Linear(names, (Term(features[:, block]),), network.embed.C[:, block]),
            registers=network.registers[rows, block],
            layers=(Attention(names, heads),),
            read=Linear(("f",), (Term(outputs[block, k : k + 1]),), np.zeros((1, 1))),
            dtype=network.dtype,
        )
        column, row, first = block.stop, rows.stop, first + part["heads"]


def _term(A: Floats, R: Floats | None = None, S: Floats | None = None, blocks: bool = False) -> Term:
    if R is None and blocks:
        raise ValueError("blocks need an R that acts on them")
    if R is not None and R.dtype != np.float64:
        raise TypeError(f"Term.R is an array of {R.dtype}")
    return Term(A, None if R is None else Block(R) if blocks else token_map(R), S)


#: What stands for each type of a network of that time: a class, or a function that makes today's of those fields.
OLD_NETWORK_TYPES: Mapping[str, Callable[..., Any]] = {
    name: kind for name, kind in NETWORK_TYPES.items() if name not in ("Block", "Gather", "Mixed", "Total")
} | {"Term": _term}
