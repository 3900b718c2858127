"""A file whose error was measured vouches for itself no more than any other: nobody here has measured anything."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path

import pytest
from support.command_line import weightwright
from support.forging import measured, save_forged

import weightwright as ww
from weightwright.export.about import about
from weightwright.report.drawing.draw import _claim
from weightwright.report.plot import _title
from weightwright.report.square_plot import _limit

TOLD = "as the file says; nobody here has measured it"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A network of -x that says of itself: sin(5*x), and a search of 10^9 inputs found 1e-15."""
    net = ww.approximate("-x", (-1, 1), 1e-6, progress=False)
    said = net.said
    assert said is not None
    how, why = "every float of the domain, against 200 bits", "a proof is slow"
    lie = measured(net.network, 1e-15, 10**9, how, why, "sin(5*x)", said.domain, said.kernel)
    save_forged(net.network, dataclasses.replace(lie, why="seen here"), tmp_path / "theirs.safetensors")
    return tmp_path / "theirs.safetensors"


def test_a_loaded_error_is_what_the_file_says(path: Path) -> None:
    for verify in (True, False):
        net = ww.load(path, verify=verify)
        said = net.certificate
        assert said is not None
        assert (said.status, said.why, said.told) == ("MEASURED", TOLD, True)
        for text in (repr(net), repr(said)):
            assert "largest error, as the file says, 1e-15, MEASURED" in text
            assert "found" not in text
            assert 'named "sin(5*x)"' in text


def test_the_command_line_says_so_too(path: Path) -> None:
    shown = weightwright("info", path).stdout
    assert TOLD in " ".join(shown.split())
    facts = json.loads(weightwright("info", path, "--json").stdout)
    assert facts["why"] == TOLD
    assert facts["measured"]["told"] == TOLD
    assert facts["subject"] == "nothing"
    refused = weightwright("check", path)
    assert refused.exit_code == 1
    with pytest.raises(ww.CertificateError, match="nothing is proven here; it says that an error"):
        ww.check(path)


def test_no_picture_or_export_states_it_as_found(path: Path, tmp_path: Path) -> None:
    net = ww.load(path)
    said = net.certificate
    assert said is not None
    for text in (_title(said, 3), _limit(said), _claim(said), *about(net).values()):
        assert "found" not in text
    assert _title(said, 3).startswith('named "sin(5*x)"')
    assert "as the file says" in about(net)["measured"]
    net.plot(tmp_path / "plot.svg")
    net.draw(tmp_path / "drawing.svg")
    net.to_torch(tmp_path / "net.py")
    assert "error found" not in (tmp_path / "net.py").read_text()


def test_copies_pickles_and_files_of_it_stay_what_they_were(path: Path, tmp_path: Path) -> None:
    net = ww.load(path)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (other.certificate.why, other.certificate.told) == (TOLD, True)
    net.save(tmp_path / "again.safetensors")
    assert ww.load(tmp_path / "again.safetensors").certificate.why == TOLD


def test_what_is_measured_here_keeps_its_words(tmp_path: Path) -> None:
    net = ww.approximate("tanh(x)", (-1, 1), 1e-3, proof="measured", progress=False)
    for one in (net, copy.deepcopy(net)):
        said = one.certificate
        assert (said.status, said.why, said.told) == ("MEASURED", "", False)
        assert "largest error found" in repr(said)
        assert "file says" not in repr(one)
    for said in (pickle.loads(pickle.dumps(net)).certificate, pickle.loads(pickle.dumps(net.said))):
        assert (said.status, said.why, said.told) == ("MEASURED", TOLD, True)
        assert said.measured == net.said.measured
