"""Repeat constraints.txt in pyproject.toml, the only place that `uv sync` reads constraints from.

python tools/lock.py
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "constraint-dependencies = [  # constraints.txt, written here by `make lock`\n", "]\n"


def read_pins(constraints: str) -> list[str]:
    """The lines of constraints.txt without what is said about them."""
    return [pin for line in constraints.splitlines() if (pin := line.partition("#")[0].strip())]


def write_pins(project: str, pins: list[str]) -> str:
    """The text of pyproject.toml with these pins in its list of constraints."""
    before, _, after = project.partition(START)
    rest = after.partition(END)[2]
    return before + START + "".join(f'    "{pin}",\n' for pin in pins) + END + rest


if __name__ == "__main__":
    project = ROOT / "pyproject.toml"
    project.write_text(write_pins(project.read_text(), read_pins((ROOT / "constraints.txt").read_text())))
