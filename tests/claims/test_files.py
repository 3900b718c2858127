"""One file holds everything; whatever is not such a file is refused with a clear message."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from support.forging import save_forged
from support.stored import KEY, certified_file, contents, plain, put

import weightwright as ww
from weightwright.claims.files import FORMAT


def test_a_loaded_network_is_the_saved_one(sine: ww.AttentionNetwork, saved: Path) -> None:
    loaded = ww.load(saved)
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]
    assert torch.equal(loaded(x), sine(x))
    assert loaded.certificate.status == "PROVEN"
    (structure, rows, pools), again = plain(sine.network), plain(loaded.network)
    assert (structure, rows) == again[:2]
    assert all(pools[name].tobytes() == again[2][name].tobytes() for name in pools)
    for name in ("formula", "domain", "dtype", "kernel", "bound", "terms", "network", "assumptions"):
        assert getattr(loaded.certificate, name) == getattr(sine.certificate, name)


def test_loading_without_checking_says_so(saved: Path) -> None:
    assert ww.load(saved, verify=False).certificate.status == "UNCHECKED"


def test_loading_and_running_need_only_torch_numpy_and_safetensors_and_load_no_exporter(saved: Path) -> None:
    program = f"""
import sys
sys.modules.update(dict.fromkeys(("scipy", "flint", "typer", "rich", "matplotlib")))
import torch, weightwright as ww
net = ww.load({str(saved)!r}, verify=False)
print(float(net(torch.tensor([[0.5]], dtype=torch.float64))))
print([name for name in sys.modules if "weightwright" in name and "export" in name])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    output, exporters = done.stdout.splitlines()
    assert abs(float(output) - np.sin(2.5)) <= 1e-8
    assert exporters == "[]"


def test_a_stored_status_is_not_believed(saved: Path) -> None:
    network, certificate = certified_file(saved)
    save_forged(network, dataclasses.replace(certificate, status="PROVEN"), saved)
    assert certified_file(saved)[1].status == "UNCHECKED"


@pytest.mark.parametrize("size", [0, 4, 100, 2000, -1])
def test_a_truncated_file_is_refused(saved: Path, size: int) -> None:
    saved.write_bytes(saved.read_bytes()[:size])
    for use in (ww.load, ww.check):
        with pytest.raises(ww.FileFormatError, match=r"cut short|safetensors"):
            use(saved)


def test_every_altered_byte_is_noticed(saved: Path) -> None:
    contents = saved.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(contents), 200).tolist():
        altered = bytearray(contents)
        altered[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(altered))
        with pytest.raises(ww.FileFormatError):
            ww.load(saved, verify=False)


def test_an_altered_weight_is_noticed_by_load_and_check(saved: Path) -> None:
    payload, pools = contents(saved)
    pools["floats"] = pools["floats"] + 1e-3
    put(saved, payload, pools)
    with pytest.raises(ww.FileFormatError, match="digest"):
        ww.load(saved, verify=False)
    with pytest.raises(ww.CertificateError, match="digest"):
        ww.check(saved)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return open, (str(marker), "w")

    for name, dump in (("plain.pkl", lambda f: pickle.dump(Bomb(), f)), ("torch.pt", lambda f: torch.save([1.0], f))):
        path = tmp_path / name
        with path.open("wb") as file:
            dump(file)
        with pytest.raises(ww.FileFormatError, match="safetensors"):
            ww.load(path)
    assert not marker.exists()


def test_other_formats_are_refused(saved: Path) -> None:
    payload, pools = contents(saved)
    for version, remedy in ((FORMAT + 1, "upgrade"), (6, "write it again"), ("8", "upgrade"), (None, "upgrade")):
        put(saved, payload | {"format": version}, pools)
        with pytest.raises(ww.FileFormatError, match=f"format {version!r}.*{remedy}"):
            ww.load(saved)


def test_another_text_of_the_same_contents_is_noticed(saved: Path) -> None:
    """1e-09 and 1E-09 are one number: the digest is that of numbers, so the text itself is compared too."""
    payload, pools = contents(saved)
    for text in (json.dumps(payload), json.dumps(payload, sort_keys=True, separators=(",", ":")).replace("e-", "E-")):
        assert json.loads(text) == payload
        save_file(pools, saved, metadata={KEY: text})
        with pytest.raises(ww.FileFormatError, match="digest"):
            ww.load(saved)


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": np.zeros((2, 2))}, path)
    with pytest.raises(ww.FileFormatError, match="not one that weightwright wrote"):
        ww.load(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ww.load(tmp_path / "nowhere.safetensors")


def test_saving_into_a_missing_folder_leaves_nothing(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sine.save(tmp_path / "nowhere" / "net.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_saving_over_a_file_leaves_only_the_new_one(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_text("something else")
    sine.save(path)
    assert ww.check(path).status == "PROVEN"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "method", "tol"), [("exp(x)*cos(3*x)", "spectral", 1e-9), ("x**2", "faithful", 1e-2)]
)
def test_same_inputs_same_bytes_in_two_processes(tmp_path: Path, formula: str, method: str, tol: float) -> None:
    program = (
        "import sys, weightwright as ww;"
        f"ww.approximate({formula!r}, (-1, 1), {tol}, method={method!r}).save(sys.argv[1])"
    )
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for seed, path in enumerate(paths):
        subprocess.run([sys.executable, "-c", program, str(path)], check=True, env={"PYTHONHASHSEED": str(seed)})
    assert paths[0].read_bytes() == paths[1].read_bytes()
