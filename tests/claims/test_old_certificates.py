"""Files of format 7, in which a certificate had a field for every kind of claim: they are read, checked and refused as
those of today. The files here were written by the version before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import weightwright as ww
from weightwright.claims.files import FORMAT, OLD_FORMAT
from weightwright.claims.format_7 import old_digest
from weightwright.claims.old_certificates import upgrade_certificate
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.target import Composite, RidgeFunctions

FOLDER = Path(__file__).parent / "format_7"
#: What the claim of each file is now.
FILES = {
    "formula": "OneLayerClaim",
    "dead_zones": "OneLayerClaim",
    "samples": "SampledClaim",
    "vector": "VectorLayerClaim",
    "token_models": "Composite",
    "ridge_functions": "Composite",
    "formulas": "Composite",
    "graph": "Composite",
    "loop": "LoopClaim",
    "grid": "GridClaim",
    "prompt": "PromptClaim",
    "side_by_side": "SideBySideClaim",
}
MEASURED = ("measured", "measured_graph")
Structure = dict[str, Any]


def contents(path: Path) -> tuple[Structure, dict[str, np.ndarray]]:
    stored = path.read_bytes()
    header = json.loads(stored[8 : 8 + int.from_bytes(stored[:8], "little")])
    return json.loads(header["__metadata__"]["weightwright"]), load(stored)


def old(name: str) -> Structure:
    return contents(FOLDER / f"{name}.safetensors")[0]["certificate"]


def forged(name: str, folder: Path, change: Callable[[Structure], None]) -> Path:
    """The old file with another certificate, the digest made to fit."""
    payload, arrays = contents(FOLDER / f"{name}.safetensors")
    for source in FOLDER.glob("*.safetensors"):  # what a change may take from other certificates
        others = {name: array for name, array in load(source.read_bytes()).items() if not name.startswith("network.")}
        arrays = others | arrays
    change(payload["certificate"])
    del payload["digest"]
    text = json.dumps(payload)
    arrays = {name: array for name, array in arrays.items() if f'"{name}"' in text}
    payload["digest"] = old_digest(payload, arrays)
    path = folder / "forged.safetensors"
    path.write_bytes(save(arrays, metadata={"weightwright": json.dumps(payload, sort_keys=True)}))
    return path


@pytest.mark.parametrize("name", FILES)
def test_an_old_file_is_proven_and_written_anew(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}.safetensors"
    before = contents(path)[0]
    assert before["format"] == OLD_FORMAT
    net = ww.load(path)
    said = net.certificate
    status = "CONDITIONAL" if name == "samples" else "PROVEN"  # on the derivative that the caller stated
    assert (said.status, type(said.claim).__name__) == (status, FILES[name])
    assert said.bound == float.fromhex(before["certificate"]["bound"]["float"])
    assert said.formula == before["certificate"]["formula"]
    net.save(tmp_path / "new.safetensors")
    assert contents(tmp_path / "new.safetensors")[0]["format"] == FORMAT
    again = ww.check(tmp_path / "new.safetensors")
    assert (again.status, again.bound, again.terms) == (status, said.bound, said.terms)


def test_an_old_file_in_bfloat16_does_not_know_that_products_flush() -> None:
    """Its bound does not cover what processors do to subnormal numbers."""
    path = FOLDER / "bfloat16.safetensors"
    with pytest.raises(ww.CertificateError, match=r"hides an assumption: .*subnormal"):
        ww.check(path)
    assert ww.load(path, verify=False).certificate.status == "UNCHECKED"


def test_what_stood_beside_a_claim_is_part_of_it() -> None:
    said = {name: ww.load(FOLDER / f"{name}.safetensors", verify=False).certificate for name in FILES}
    assert len(said["dead_zones"].dead_zones) == len(old("dead_zones")["dead_zones"]) > 0
    assert said["grid"].norm == float.fromhex(old("grid")["norm"]["float"]) < np.inf
    assert isinstance(said["loop"].claim, LoopClaim)
    assert said["loop"].claim.features == old("loop")["one_pass"]["features"]
    assert isinstance(said["formulas"].claim, Composite)
    assert isinstance(said["formulas"].claim.target, RidgeFunctions)
    assert said["formulas"].claim.formulas.formulas == tuple(old("formulas")["composite"]["target"]["formulas"])


@pytest.mark.parametrize("name", MEASURED)
def test_an_old_measured_file_claims_nothing(name: str) -> None:
    said = ww.load(FOLDER / f"{name}.safetensors").certificate
    assert (said.status, said.bound) == ("MEASURED", np.inf)
    before = old(name)
    assert said.measured.error == float.fromhex(before["measured"]["error"]["float"])
    assert len(said.dead_zones) == len(before["dead_zones"])
    assert (said.measured.against is None) == (before["composite"] is None)
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(FOLDER / f"{name}.safetensors")


def test_an_old_measured_rule_keeps_its_target(tmp_path: Path) -> None:
    def measure(c: Structure) -> None:
        c["measured"], c["bound"] = old("measured")["measured"], {"float": "inf"}

    net = ww.load(forged("loop", tmp_path, measure))
    assert net.certificate.status == "MEASURED"
    assert isinstance(net.certificate.against, LoopClaim)
    with pytest.raises(ww.FileFormatError, match="about one pass has no target"):
        ww.load(forged("loop", tmp_path, lambda c: (measure(c), c.update(composite=None))))


def test_an_old_file_without_a_certificate_is_read() -> None:
    assert ww.load(FOLDER / "no_certificate.safetensors").certificate is None


ONE = {"float": "0x1.0p+0"}
ZONES = [[{"float": "-0x1.0p+0"}, ONE]]
#: A field that excludes the claim of the file, and what it is set to.
BESIDE: dict[str, tuple[str, Any]] = {
    "a grid with a dead zone": ("grid", {"dead_zones": ZONES}),
    "a norm without a grid": ("grid", {"grid": None}),
    "a grid without a norm": ("grid", {"norm": {"float": "inf"}}),
    "a norm of one layer": ("formula", {"norm": ONE}),
    "a norm of several variables": ("vector", {"norm": ONE}),
    "a norm of several layers": ("token_models", {"norm": ONE}),
    "a norm of a prompt": ("prompt", {"norm": ONE}),
    "a norm of networks side by side": ("side_by_side", {"norm": ONE}),
    "a norm of a loop": ("loop", {"norm": ONE}),
    "a dead zone of several layers": ("ridge_functions", {"dead_zones": ZONES}),
    "a dead zone of a prompt": ("prompt", {"dead_zones": ZONES}),
    "a dead zone of several variables": ("vector", {"dead_zones": ZONES}),
    "a dead zone with samples": ("samples", {"dead_zones": ZONES}),
    "a dead zone of networks side by side": ("side_by_side", {"dead_zones": ZONES}),
    "layers beside several layers": ("graph", {"layers": old("formula")["layers"]}),
    "layers beside a prompt": ("prompt", {"layers": old("formula")["layers"]}),
    "layers beside a grid": ("grid", {"layers": old("formula")["layers"]}),
    "a prompt beside layers": ("formula", {"prompted": old("prompt")["prompted"]}),
    "a grid beside a prompt": ("prompt", {"grid": old("grid")["grid"]}),
    "several layers beside parts": ("side_by_side", {"composite": old("graph")["composite"]}),
    "samples of several variables": ("vector", {"samples": old("samples")["samples"]}),
    "samples of several layers": ("graph", {"samples": old("samples")["samples"]}),
    "one pass of one layer": ("formula", {"one_pass": old("loop")["one_pass"]}),
    "one pass of nothing": ("loop", {"composite": None}),
    "one pass of a prompt": ("prompt", {"one_pass": old("loop")["one_pass"]}),
    "two layers": ("formula", {"layers": 2 * old("formula")["layers"]}),
    "two leaves of several variables": ("vector", {"layers": 2 * old("vector")["layers"]}),
    "a measured error beside layers": ("formula", {"measured": old("measured")["measured"], "bound": {"float": "inf"}}),
    "a measured error beside a prompt": ("prompt", {"measured": old("measured")["measured"]}),
    "a measured error that is a text": ("measured", {"measured": "0"}),
    "a measured error that is a number": ("measured", {"measured": 0}),
    "no claim": ("formula", {"layers": []}),
    "no samples and no layers": ("samples", {"layers": [], "samples": None}),
    "a leaf that is none": ("formula", {"layers": ["sin(s)"]}),
    "layers that are a number": ("formula", {"layers": 1}),
    "a grid that is a prompt": ("grid", {"grid": old("prompt")["prompted"]}),
    "a field that there never was": ("formula", {"trust": "me"}),
    "a claim of today": ("formula", {"claim": upgrade_certificate(old("formula"))["claim"]}),
    "a type that is none": ("formula", {"terms": {"type": ["Terms"]}}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_claims_that_exclude_each_other_are_refused(name: str, tmp_path: Path) -> None:
    source, fields = BESIDE[name]
    path = forged(source, tmp_path, lambda c: c.update(fields))
    for use in (ww.check, ww.load, lambda path: ww.load(path, verify=False)):
        with pytest.raises(ww.FileFormatError):
            use(path)


def test_a_part_with_two_claims_is_refused(tmp_path: Path) -> None:
    for fields in ({"norm": ONE}, {"grid": old("grid")["grid"]}, {"measured": old("measured")["measured"]}):
        path = forged("side_by_side", tmp_path, lambda c: c["parts"][-1]["certificate"].update(fields))  # noqa: B023
        with pytest.raises(ww.FileFormatError, match="makes one claim"):
            ww.check(path)


@pytest.mark.parametrize("name", FILES)
def test_a_smaller_bound_of_an_old_file_is_refused(name: str, tmp_path: Path) -> None:
    def lower(c: Structure) -> None:
        c["bound"] = {"float": (float.fromhex(c["bound"]["float"]) / 2).hex()}

    with pytest.raises(ww.CertificateError):
        ww.check(forged(name, tmp_path, lower))


def test_a_measured_old_file_with_a_finite_bound_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ww.FileFormatError, match="claims no bound"):
        ww.load(forged("measured", tmp_path, lambda c: c.update(bound=ONE)))


def test_a_certificate_within_certificates_without_end_is_refused() -> None:
    structure: Any = old("side_by_side")
    for _ in range(5000):
        structure = {**structure, "parts": [{"type": "Part", "certificate": structure}]}
    with pytest.raises(ww.FileFormatError):
        upgrade_certificate(structure)


@pytest.mark.parametrize("structure", [None, 3, [], {}, {"type": "Box"}])
def test_what_is_no_certificate_is_refused(structure: Any) -> None:
    with pytest.raises(ww.FileFormatError, match="is not a Certificate"):
        upgrade_certificate(structure)
