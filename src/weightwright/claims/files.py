"""One safetensors file holds weights, structure and certificate. Never a pickle. docs/format.md

All text stands under one metadata key as JSON, so that equal contents give equal bytes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from weightwright.box import Box
from weightwright.claims.cell_grid import GridClaim
from weightwright.claims.certificate import Certificate, MeasuredClaim, SideBySideClaim, SideNetwork, Status
from weightwright.claims.format_7 import old_digest, read_old
from weightwright.claims.graph import Fused, Graph, Node, ProductClaim, SoftmaxClaim
from weightwright.claims.leaf import Leaf, OneLayerClaim, SampledClaim, Samples, Terms, VectorLayerClaim, VectorLeaf
from weightwright.claims.prompt import LoopClaim, Pass, PromptClaim, Summand
from weightwright.claims.target import Composite, FormulasClaim, GateClaim, RidgeFunctions, TableClaim, TokenModels
from weightwright.errors import AlteredFileError, FileFormatError
from weightwright.network import Network
from weightwright.network.storage import NETWORK_TYPES, ArrayReader, ArrayWriter, Pools, decode, digest, encode, in_json

FORMAT = 8
#: The format before it, which is read too.
OLD_FORMAT = 7
_KEY = "weightwright"
_ONE_LAYER = (Leaf, OneLayerClaim, SampledClaim, Samples, Terms, VectorLayerClaim, VectorLeaf)
_COMPOSITES = (Composite, GateClaim, GridClaim, TokenModels, TableClaim, RidgeFunctions, FormulasClaim)
_GRAPHS = (Fused, Graph, Node, ProductClaim, SoftmaxClaim)
_PROMPTS = (LoopClaim, Pass, PromptClaim, Summand)
_WHOLE = (Box, Certificate, MeasuredClaim, SideBySideClaim, SideNetwork)
_CERTIFICATE_TYPES = {kind.__name__: kind for kind in (*_WHOLE, *_ONE_LAYER, *_COMPOSITES, *_GRAPHS, *_PROMPTS)}


def network_digest(network: Network) -> str:
    """What a certificate calls its network by."""
    arrays = ArrayWriter()
    structure = encode(network, arrays)
    return digest({"network": structure, "arrays": arrays.rows}, arrays.pools())


def write(path: str | os.PathLike[str], network: Network, certificate: Certificate | None) -> None:
    """Write the file whole or not at all."""
    contents = encode_file(network, certificate)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(contents)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


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
    """The network and its certificate: UNCHECKED, or MEASURED if it claims nothing. FileFormatError for all else."""
    payload, text, pools = _contents(Path(path))
    old = payload["format"] == OLD_FORMAT
    stated = payload.pop("digest", None)
    same = stated == (old_digest if old else digest)(payload, pools)
    if not (same and (old or text == in_json(payload | {"digest": stated}))):
        raise AlteredFileError(f"{path}: the contents do not match their digest; the file was altered or damaged")
    if old:
        network, certificate = read_old(payload, pools, network_digest, _CERTIFICATE_TYPES)
    else:
        network, certificate = _decoded(payload, pools)
    if certificate is None:
        return network, None
    _claims_nothing_if_measured(path, certificate)
    status: Status = "MEASURED" if isinstance(certificate.claim, MeasuredClaim) else "UNCHECKED"
    return network, dataclasses.replace(certificate, status=status, why="")


def _claims_nothing_if_measured(path: str | os.PathLike[str], certificate: Certificate) -> None:
    found = certificate.claim
    if not isinstance(found, MeasuredClaim):
        return
    if certificate.bound != math.inf:
        raise FileFormatError(f"{path}: a certificate whose error was measured claims no bound")
    if not isinstance(found.error, float):
        raise FileFormatError(f"{path}: the measured error {found.error!r} is no number")


def _decoded(payload: dict[str, Any], pools: Pools) -> tuple[Network, Certificate | None]:
    arrays = ArrayReader(payload.get("arrays"), pools)
    network = decode(payload.get("network"), arrays, NETWORK_TYPES, Network)
    if payload.get("certificate") is None:
        return network, None
    return network, decode(payload["certificate"], arrays, _CERTIFICATE_TYPES, Certificate)


def _contents(path: Path) -> tuple[dict[str, Any], str, Pools]:
    """(text read as JSON, the text, tensors by name)"""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            pools = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FileFormatError(f"{path}: not a safetensors file, or cut short ({error})") from error
    try:
        text = metadata[_KEY]
        payload = json.loads(text, parse_constant=_refuse)
        version = payload["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: a safetensors file, but not one that weightwright wrote") from error
    if version not in (OLD_FORMAT, FORMAT):
        older = isinstance(version, int) and 1 <= version < FORMAT
        do = "write it again with this version" if older else "upgrade it"
        reads = f"this weightwright reads formats {OLD_FORMAT} and {FORMAT}"
        raise FileFormatError(f"{path}: format {version!r}, but {reads}; {do}")
    return payload, text, pools


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
