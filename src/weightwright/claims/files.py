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
from weightwright.claims.certificate import Certificate, MeasuredClaim, SideBySideClaim, SideNetwork, Status
from weightwright.claims.graph import Fused, Graph, Node, ProductClaim, SoftmaxClaim
from weightwright.claims.leaf import Leaf, OneLayerClaim, SampledClaim, Samples, Terms, VectorLayerClaim, VectorLeaf
from weightwright.claims.old_certificates import upgrade_certificate
from weightwright.claims.prompt import LoopClaim, Pass, PromptClaim, Summand
from weightwright.claims.target import Composite, FormulasClaim, GateClaim, RidgeFunctions, TableClaim, TokenModels
from weightwright.errors import AlteredFileError, FileFormatError
from weightwright.network import Network
from weightwright.network.storage import NETWORK_TYPES, Arrays, decode, digest, encode

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
    said = payload["certificate"]
    said = upgrade_certificate(said) if payload["format"] == OLD_FORMAT else said
    certificate = decode(said, arrays, _CERTIFICATE_TYPES, Certificate)
    _claims_nothing_if_measured(path, certificate)
    status: Status = "UNCHECKED" if certificate.measured is None else "MEASURED"
    return network, dataclasses.replace(certificate, status=status)


def _claims_nothing_if_measured(path: str | os.PathLike[str], certificate: Certificate) -> None:
    found = certificate.measured
    if found is not None and certificate.bound != math.inf:
        raise FileFormatError(f"{path}: a certificate whose error was measured claims no bound")
    if found is not None and not isinstance(found.error, float):
        raise FileFormatError(f"{path}: the measured error {found.error!r} is no number")


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
    if version not in (OLD_FORMAT, FORMAT):
        older = isinstance(version, int) and 1 <= version < OLD_FORMAT
        do = "write it again with this version" if older else "upgrade it"
        raise FileFormatError(
            f"{path}: format {version!r}, but this weightwright reads formats {OLD_FORMAT} and {FORMAT}; {do}"
        )
    return payload, arrays
