"""What is released: the version in one place, a wheel and an sdist with the package and nothing else."""

from __future__ import annotations

import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import artefacts
import pytest
import yaml

import weightwright as ww
from weightwright.limits import Limits

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "weightwright.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", ww.__version__)
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert ww.__version__ in headings[0]


def test_the_citation_says_what_the_package_says() -> None:
    citation, project = yaml.safe_load((ROOT / "CITATION.cff").read_text()), PROJECT["project"]
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]


def test_security_says_the_limits_that_there_are() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    for name, value in vars(Limits()).items():
        if name == "dead_share":
            continue  # not a cost
        assert f"| `{name}` | {value:,.0f}" in page


def write_wheel(path: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def write_sdist(path: Path, names: set[str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"weightwright-1/{name}"), io.BytesIO())
    return path


def test_artefacts_hold_the_package_and_nothing_else(tmp_path: Path) -> None:
    package = artefacts.package_files()
    assert {"weightwright/py.typed", "weightwright/cli/__main__.py"} <= package
    wheel = package | {"weightwright-1.dist-info/METADATA"}
    sdist = {f"src/{name}" for name in package} | artefacts.BESIDE | {"src/weightwright.egg-info/PKG-INFO"}
    artefacts.check_wheel(write_wheel(tmp_path / "a.whl", wheel))
    artefacts.check_sdist(write_sdist(tmp_path / "a.tar.gz", sdist))
    for changed in (wheel | {"tests/test_a.py"}, wheel - {"weightwright/py.typed"}):
        with pytest.raises(SystemExit, match=r"tests/test_a\.py|py\.typed"):
            artefacts.check_wheel(write_wheel(tmp_path / "b.whl", changed))
    for changed in (sdist | {"tests/test_a.py"}, sdist - {"src/weightwright/py.typed"}):
        with pytest.raises(SystemExit, match=r"tests/test_a\.py|py\.typed"):
            artefacts.check_sdist(write_sdist(tmp_path / "b.tar.gz", changed))


def test_every_extra_but_ray_is_used_in_a_clean_environment() -> None:
    assert set(artefacts.FEATURES) == set(PROJECT["project"]["optional-dependencies"]) - {"ray"}


def test_the_first_block_of_the_readme_is_found() -> None:
    program, prints = artefacts.first_block()
    assert "ww.approximate" in program
    assert prints.endswith("PROVEN\n")
