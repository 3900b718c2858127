"""Files that were written before format 8: what they were is what they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from support.stored import KEY, contents

import weightwright as ww
from weightwright.claims.files import FORMAT, network_digest, read
from weightwright.claims.format_7 import old_digest
from weightwright.network import Block, Gather, Total

OLD = Path(__file__).parent / "format_7_outputs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((OLD / "expected.json").read_text())
PROVEN = [name for name, said in EXPECTED.items() if said["status"] in ("PROVEN", "CONDITIONAL")]


def old(name: str) -> Path:
    return OLD / f"{name}.safetensors"


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_file_is_what_it_was(name: str) -> None:
    said, net = EXPECTED[name], ww.load(old(name))
    assert contents(old(name))[0]["format"] == 7
    if net.certificate is None:
        assert said["status"] == "none"
    else:
        assert net.certificate.status == said["status"]
        assert said["bound"] in (net.certificate.bound, None)
    y = net(torch.tensor(said["x"], dtype=net.dtype)).double().numpy()
    assert np.abs(y - np.array(said["y"])).max() <= 1e-13


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_file_is_saved_as_a_new_one(name: str, tmp_path: Path) -> None:
    net = ww.load(old(name), verify=False)
    net.save(tmp_path / "new.safetensors")
    assert contents(tmp_path / "new.safetensors")[0]["format"] == FORMAT
    again = ww.load(tmp_path / "new.safetensors")
    assert network_digest(again.network) == network_digest(net.network)
    x = torch.tensor(EXPECTED[name]["x"], dtype=net.dtype)
    assert torch.equal(again(x), net(x))
    assert (tmp_path / "new.safetensors").stat().st_size < old(name).stat().st_size


def test_maps_on_tokens_become_what_they_are() -> None:
    def kinds(name: str) -> set[type]:
        network = read(old(name))[0]
        linear = [layer for layer in (network.embed, *network.flat_layers, network.read) if hasattr(layer, "terms")]
        return {type(term.tokens) for layer in linear for term in layer.terms}

    assert kinds("descent_of_3") == {type(None), Block, Gather, Total}
    assert kinds("descent_of_1") == {type(None), Block, Gather}  # the sum of one token
    assert kinds("rule") == {type(None), Gather}


def forge(path: Path, change: Any) -> None:
    """In good order, as it was then."""
    payload, arrays = contents(path)
    change(payload, arrays)
    del payload["digest"]
    payload["digest"] = old_digest(payload, arrays)
    save_file(arrays, path, metadata={KEY: json.dumps(payload, sort_keys=True)})


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Of the network with most kinds of map."""
    return Path(shutil.copy(old("descent_of_3"), tmp_path / "old.safetensors"))


def test_a_copy_in_good_order_is_loaded(copied: Path) -> None:
    forge(copied, lambda payload, arrays: None)
    assert ww.check(copied).status == "PROVEN"


def test_an_altered_weight_is_noticed(copied: Path) -> None:
    payload, arrays = contents(copied)
    arrays["network.embed.C"] = arrays["network.embed.C"] + 1e-3
    save_file(arrays, copied, metadata={KEY: json.dumps(payload, sort_keys=True)})
    with pytest.raises(ww.FileFormatError, match="digest"):
        ww.load(copied, verify=False)


def weight(payload: Any, arrays: Any) -> None:
    arrays["network.embed.C"] = arrays["network.embed.C"] + 1e-3


def matrix(payload: Any, arrays: Any) -> None:
    (name,) = [name for name, array in arrays.items() if name.endswith(".R") and array.shape == (3, 3)]
    arrays[name] = arrays[name] - np.eye(3)


@pytest.mark.parametrize("change", [weight, matrix])
@pytest.mark.parametrize("named", [False, True], ids=["as it was", "named anew"])
def test_a_forged_network_is_refused(change: Any, named: bool, copied: Path) -> None:
    """Also where the certificate names the network that now stands there."""

    def forged(payload: Any, arrays: Any) -> None:
        change(payload, arrays)
        own = {name: array for name, array in arrays.items() if name.startswith("network.")}
        if named:
            payload["certificate"]["network"] = old_digest(payload["network"], own)

    forge(copied, forged)
    with pytest.raises(ww.CertificateError, match="is not what it must be" if named else "about another network"):
        ww.check(copied)


def test_a_certificate_of_a_part_keeps_its_network(tmp_path: Path) -> None:
    path = Path(shutil.copy(old("side_by_side"), tmp_path / "old.safetensors"))

    def another(payload: Any, arrays: Any) -> None:
        payload["certificate"]["parts"][1]["certificate"]["network"] = "0" * 64

    forge(path, another)
    with pytest.raises(ww.CertificateError, match="about another network"):
        ww.check(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload.pop("network"),
        lambda payload: payload["network"].pop("embed"),
        lambda payload: payload["network"].update(type="Certificate"),
        lambda payload: payload["network"]["embed"].update(C={"array": "nowhere"}),
        lambda payload: payload["network"]["embed"]["terms"][0].update(blocks=True),
        lambda payload: payload["network"]["embed"]["terms"][0].update(type="Gather", sources=[0]),
        lambda payload: payload.update(certificate=[1]),
        lambda payload: payload["certificate"].update(parts=[{"width": 1}]),
        lambda payload: payload["certificate"].update(domain=3, type="Nothing"),
    ],
)
def test_a_malformed_old_file_is_refused(change: Any, copied: Path) -> None:
    forge(copied, lambda payload, arrays: change(payload))
    with pytest.raises(ww.FileFormatError):
        ww.load(copied, verify=False)
