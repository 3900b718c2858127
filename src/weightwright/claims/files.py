"""One safetensors file holds weights, structure and certificate. Never a pickle.

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
from weightwright.claims.certificate import Certificate, Leaf, Measured, Samples, SideNetwork, Status, Terms, VectorLeaf
from weightwright.claims.graph import Fused, Graph, Node, ProductClaim, SoftmaxClaim
from weightwright.claims.prompt import OnePass, Pass, Prompted, Summand
from weightwright.claims.target import Composite, FormulasClaim, GateClaim, RidgeFunctions, TableClaim, TokenModels
from weightwright.errors import AlteredFileError, FileFormatError
from weightwright.network import Network
from weightwright.network.storage import NETWORK_TYPES, Arrays, decode, digest, encode

FORMAT = 7
_KEY = "weightwright"
_LEAVES = (Leaf, Samples, Terms, VectorLeaf)
_COMPOSITES = (Composite, GateClaim, GridClaim, TokenModels, TableClaim, RidgeFunctions, FormulasClaim)
_GRAPHS = (Fused, Graph, Node, ProductClaim, SoftmaxClaim)
_PROMPTS = (OnePass, Pass, Prompted, Summand)
_CLAIMS = (Box, Certificate, Measured, SideNetwork, *_LEAVES, *_COMPOSITES, *_GRAPHS, *_PROMPTS)
_CERTIFICATE_TYPES = {kind.__name__: kind for kind in _CLAIMS}


def network_digest(network: Network) -> str:
    """What a certificate calls its network by."""
    return digest(*encode(network))


def write(path: str | os.PathLike[str], network: Network, certificate: Certificate | None) -> None:
    """Write the file whole or not at all."""
    structure, arrays = encode(network)
    payload: dict[str, Any] = {"format": FORMAT, "network": structure, "certificate": None}
    if certificate is not None:
        unchecked = dataclasses.replace(certificate, status="UNCHECKED")  # a file cannot vouch for itself
        payload["certificate"], claims = encode(unchecked, "certificate")
        arrays = arrays | claims
    payload["digest"] = digest(payload, arrays)
    contents = to_bytes(arrays, metadata={_KEY: json.dumps(payload, sort_keys=True)})
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(contents)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[Network, Certificate | None]:
    """The network and its certificate: UNCHECKED, or MEASURED if it claims nothing. FileFormatError for all else."""
    payload, arrays = _contents(Path(path))
    stated = payload.pop("digest", None)
    if stated != digest(payload, arrays):
        raise AlteredFileError(f"{path}: the contents do not match their digest; the file was altered or damaged")
    network = decode(payload.get("network"), arrays, NETWORK_TYPES, Network)
    if payload.get("certificate") is None:
        return network, None
    certificate = decode(payload["certificate"], arrays, _CERTIFICATE_TYPES, Certificate)
    if certificate.measured is not None:
        claims_nothing = certificate.layers == () and certificate.bound == math.inf
        if not (isinstance(certificate.measured, Measured) and claims_nothing):
            raise FileFormatError(f"{path}: a certificate whose error was measured claims nothing else")
    status: Status = "UNCHECKED" if certificate.measured is None else "MEASURED"
    return network, dataclasses.replace(certificate, status=status)


def _contents(path: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FileFormatError(f"{path}: not a safetensors file, or cut short ({error})") from error
    try:
        payload = json.loads(metadata[_KEY])
        version = payload["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: a safetensors file, but not one that weightwright wrote") from error
    if version != FORMAT:
        older = isinstance(version, int) and 1 <= version < FORMAT
        do = "write it again with this version" if older else "upgrade it"
        raise FileFormatError(f"{path}: format {version!r}, but this weightwright reads format {FORMAT}; {do}")
    return payload, arrays
