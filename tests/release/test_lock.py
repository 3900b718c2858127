"""constraints.txt is the one lock: what pip, CI and uv take is the same, every pin is needed, nothing is left open."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions, requires
from pathlib import Path

from lock import read_pins, write_pins

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()
_PIN = re.compile(r"([a-z0-9-]+)==(\S+)(?: ; (.+?))?\s+# via (.+)")


def normal(requirement: str) -> str:
    """The name that a requirement begins with, as indexes write it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ \[<>=!~;(]", requirement)[0]).lower()


def pinned() -> dict[str, list[str]]:
    """Every package of the lock, with those that it is there for."""
    lines = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    found = [_PIN.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if match is None]
    return {match[1]: match[4].split(", ") for match in found if match is not None}


def required() -> set[str]:
    """What pyproject.toml asks for itself, extras and the groups of developers included."""
    project = tomllib.loads(PROJECT)
    lists = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    lists += project["dependency-groups"].values()
    return {normal(one) for some in lists for one in some if isinstance(one, str)}


def test_uv_reads_the_same_pins() -> None:
    assert write_pins(PROJECT, read_pins(CONSTRAINTS)) == PROJECT, "run `python tools/lock.py`"
    assert len(read_pins(CONSTRAINTS)) == len(pinned()) > 100


def test_every_pin_is_needed_and_everything_required_is_pinned() -> None:
    pins = pinned()
    for name, needed_by in pins.items():
        ours = any(one.startswith("weightwright (pyproject.toml") for one in needed_by)
        assert ours == (name in required()), name
        others = [one for one in needed_by if not one.startswith("weightwright")]
        assert ours or others
        assert set(others) <= set(pins), f"{name} is for {needed_by}"
    assert required() <= set(pins)


def test_what_is_installed_needs_what_the_lock_says() -> None:
    """Against the packages themselves: a line cannot claim to be for one that does not ask for it."""
    pins = pinned()
    here = {normal(found.name) for found in distributions()} & set(pins)
    pairs = [(name, other) for name in here for other in set(pins[name]) & here]
    assert len(pairs) > 150
    for name, other in pairs:
        assert name in map(normal, requires(other) or []), f"{other} does not ask for {name}"


def test_make_and_the_workflows_install_by_the_lock_alone() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = re.findall(r"pip install .*", makefile)
    assert len(installs) == 2
    assert all("-c constraints.txt" in line for line in installs)
    assert "==" not in makefile
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert "pip install" not in path.read_text()
