"""What is proven of networks of a size is kept on disk: finding the terms of the bound takes half of the time.

The weights are always built anew, from tables that are kept. The file says what was claimed of them, and is used only
if that is the claim that is made now; the checker then proves it for the new weights, as if it had just been proposed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.checker.check import prove
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import encode_file, read
from weightwright.claims.prompt import PromptClaim
from weightwright.errors import CertificateError, WeightwrightError
from weightwright.kept import is_kept, keep, kept_path
from weightwright.limits import Limits, limited
from weightwright.network import Network
from weightwright.network.storage import ArrayWriter, digest, encode
from weightwright.runtime import AttentionNetwork


def certify_or_recall(network: Network, claim: PromptClaim, domain: Box, *asked: Hashable) -> AttentionNetwork:
    """The network with a certificate that the checker agrees with: a kept one, or one that is found now and kept.

    asked: what names the file. A file that is damaged, or about another network, claim or domain, is replaced."""
    path = kept_path("safetensors", *asked)
    if path is not None and is_kept(path):
        try:
            return AttentionNetwork(network, _recall(path, network, claim, domain))
        except (WeightwrightError, OSError):
            with suppress(OSError):
                path.unlink(missing_ok=True)
    net = certify(network, claim, domain)
    keep(path, lambda partial: partial.write_bytes(encode_file(*net.stored())))
    return net


def _recall(path: Path, network: Network, claim: PromptClaim, domain: Box) -> Certificate:
    """The kept certificate, proven for this network; CertificateError where it is another's, or says something else."""
    with limited(path, Limits()):
        said = read(path)[1]
        if said is None or _contents(_without_costs(said.claim, claim)) != _contents(claim):
            raise CertificateError(f"{path} is not about what is claimed now")
        if _contents(said.domain) != _contents(domain):
            raise CertificateError(f"{path} is about another domain")
        return prove(path, network, said)


def _without_costs(kept: Any, claim: PromptClaim) -> Any:
    """The kept claim with the terms that the tables' claims had before it was known what they cost in this network."""
    if not isinstance(kept, PromptClaim) or len(kept.summands) != len(claim.summands):
        return kept
    summands = tuple(
        dataclasses.replace(one, claim=dataclasses.replace(one.claim, terms=now.claim.terms))
        for one, now in zip(kept.summands, claim.summands, strict=True)
    )
    return dataclasses.replace(kept, summands=summands)


def _contents(value: Any) -> str:
    """The same for equal dataclasses, arrays and all."""
    arrays = ArrayWriter()
    structure = encode(value, arrays)
    return digest({"value": structure, "arrays": arrays.rows}, arrays.pools())
