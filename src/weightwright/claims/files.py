"""One safetensors file holds weights, structure and certificate. Never a pickle. docs/format.md

All text stands under one metadata key as JSON, so that equal contents give equal bytes.
"""

from __future__ import annotations

import dataclasses
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

from safetensors.numpy import save as to_bytes

from weightwright.box import Box
from weightwright.claims.certificate import Certificate, Claim, MeasuredClaim, Status, as_told
from weightwright.claims.graph import AttentionClaim, Fused, Graph, Node, ProductClaim, SoftmaxClaim
from weightwright.claims.leaf import Leaf, Samples, Terms, VectorLeaf
from weightwright.claims.memory_claim import MemoryClaim
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.program_claim import AnchorTable, InterpreterClaim
from weightwright.claims.prompt import Beginning, LoopClaim, Pass, PromptClaim, Summand
from weightwright.claims.target import Composite, TableClaim
from weightwright.errors import AlteredFileError, FileFormatError, MalformedCertificateError
from weightwright.extensions import registry
from weightwright.input_files import parse_json, read_whole, unpack_tensors
from weightwright.network import Network
from weightwright.network.storage import NETWORK_TYPES, ArrayReader, ArrayWriter, Pools, decode, digest, encode, in_json
from weightwright.output_files import whole

FORMAT = 8
_KEY = "weightwright"
#: What the text of a file holds; nothing else.
_FIELDS = ("format", "arrays", "network", "certificate", "digest")
_ONE_LAYER = (Leaf, OneLayerClaim, SampledClaim, Samples, Terms, VectorLayerClaim, VectorLeaf)
_COMPOSITES = (Composite, TableClaim)
_GRAPHS = (AttentionClaim, Fused, Graph, Node, ProductClaim, SoftmaxClaim)
_PROMPTS = (AnchorTable, Beginning, InterpreterClaim, LoopClaim, Pass, PromptClaim, Summand)
_WHOLE = (Box, Certificate, MeasuredClaim, MemoryClaim)
_TYPES = (*_WHOLE, *_ONE_LAYER, *_COMPOSITES, *_GRAPHS, *_PROMPTS)


@cache
def certificate_types() -> dict[str, type]:
    """The types that a certificate may hold, by name: ours, and those that extensions register under "claims"."""
    return registry("claims", {kind.__name__: kind for kind in _TYPES})


def network_digest(network: Network) -> str:
    """What a certificate calls its network by."""
    arrays = ArrayWriter()
    structure = encode(network, arrays)
    return digest({"network": structure, "arrays": arrays.rows}, arrays.pools())


def write(path: str | os.PathLike[str], network: Network, certificate: Certificate | None) -> None:
    """Write the file whole or not at all."""
    contents = encode_file(network, certificate)
    with whole(Path(path)) as (partial,):
        partial.write_bytes(contents)


def encode_file(network: Network, certificate: Certificate | None) -> bytes:
    """The contents of the file."""
    arrays = ArrayWriter()
    payload: dict[str, Any] = {"format": FORMAT, "network": encode(network, arrays), "certificate": None}
    if certificate is not None:
        unchecked = dataclasses.replace(certificate, status="UNCHECKED")  # a file cannot vouch for itself
        payload["certificate"] = encode(unchecked, arrays)
    pools = arrays.pools()
    payload["arrays"] = arrays.rows
    payload["digest"] = digest(payload, pools)
    return to_bytes(pools, metadata={_KEY: in_json(payload)})


def read(path: str | os.PathLike[str]) -> tuple[Network, Certificate | None]:
    """The network and its certificate: UNCHECKED, or MEASURED, as the file says, if it claims nothing. FileFormatError
    for all else."""
    payload, text, pools = _contents(Path(path))
    stated = payload.pop("digest", None)
    try:
        same = stated == digest(payload, pools) and text == in_json(payload | {"digest": stated})
    except (ValueError, RecursionError) as error:  # names that are not Unicode; lists too deep to be written again
        raise FileFormatError(f"{path}: weightwright would not have written its text ({error})") from error
    if not same:
        raise AlteredFileError(f"{path}: the contents do not match their digest; the file was altered or damaged")
    network, certificate = _decoded(payload, pools)
    if certificate is None:
        return network, None
    _makes_a_claim(path, certificate)
    status: Status = "MEASURED" if isinstance(certificate.claim, MeasuredClaim) else "UNCHECKED"
    return network, as_told(dataclasses.replace(certificate, status=status, why=""))


def _makes_a_claim(path: str | os.PathLike[str], certificate: Certificate) -> None:
    found = certificate.claim
    if not isinstance(found, Claim):
        raise MalformedCertificateError(f"{path}: no rule for a claim of type {type(found).__name__}")
    if not isinstance(found, MeasuredClaim):
        return
    if certificate.bound != math.inf:
        raise FileFormatError(f"{path}: a certificate whose error was measured claims no bound")
    if not isinstance(found.error, float):
        raise FileFormatError(f"{path}: the measured error {found.error!r} is no number")


def _decoded(payload: dict[str, Any], pools: Pools) -> tuple[Network, Certificate | None]:
    arrays = ArrayReader(payload.get("arrays"), pools)
    network = decode(payload.get("network"), arrays, NETWORK_TYPES, Network)
    certificate = payload.get("certificate")
    if certificate is not None:
        certificate = decode(certificate, arrays, certificate_types(), Certificate)
    arrays.all_are_named()
    return network, certificate


def _contents(path: Path) -> tuple[dict[str, Any], str, Pools]:
    """(text read as JSON, the text, tensors by name)"""
    contents = read_whole(path)
    try:
        metadata, pools = unpack_tensors(contents)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: not a safetensors file, or cut short ({error})") from error
    try:
        text = metadata[_KEY]
        payload = parse_json(text)
        version = payload["format"]
    except (KeyError, TypeError, FileFormatError) as error:
        raise FileFormatError(f"{path}: a safetensors file, but not one that weightwright wrote") from error
    if version != FORMAT:
        older = isinstance(version, int) and 1 <= version < FORMAT
        do = "write it again with this version" if older else "upgrade it"
        raise FileFormatError(f"{path}: format {version!r}, but this weightwright reads format {FORMAT}; {do}")
    for field in (*(metadata.keys() - {_KEY}), *(payload.keys() - set(_FIELDS))):
        raise FileFormatError(f"{path}: it has a field {field!r} that nothing uses")
    return payload, text, pools
