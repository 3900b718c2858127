"""docs/reference.md: it is what the docstrings say today, and leaves out no name, argument, field or error."""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import reference
from support.command_line import command_group
from support.stored import saved
from support.with_papers import needs_papers

import weightwright as ww
from weightwright import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()
#: Errors that never come out as such: what is read from files, columns that are undefined (a FormulaError or an
#: UnclearError), and networks that the planner of passes has no steps for (they run layer by layer).
INSIDE = {"MistypedError", "Undefined", "UnplannedError"}


@needs_papers
def test_the_page_is_up_to_date() -> None:
    assert reference.write_page() == PAGE, "run make docs"


def test_everything_is_described() -> None:
    assert reference.missing() == []


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_has_its_place(module: str) -> None:
    for name in reference.names_of(reference.MODULES[module]):
        named = getattr(reference.MODULES[module], name)
        if inspect.ismodule(named):
            assert f"\n## {module}.{name}\n" in PAGE
        elif inspect.isclass(named) and issubclass(named, Exception):
            assert f"\n| `{module}.{name}` | " in PAGE
        else:
            assert f"\n### {module}.{name}\n" in PAGE


def test_every_argument_has_a_line() -> None:
    for name in ("approximate", "compile"):
        part = PAGE.split(f"### ww.{name}\n")[1].split("\n### ")[0]
        for argument in inspect.signature(getattr(ww, name)).parameters:
            assert len(re.findall(rf"^\| `{argument}` \| ", part, re.MULTILINE)) == 1, argument


def test_every_method_of_a_network_is_told() -> None:
    for name, member in vars(ww.AttentionNetwork).items():
        if inspect.isfunction(member) and not name.startswith("_") and name not in ("forward", "extra_repr"):
            assert f"\n#### AttentionNetwork.{name}(" in PAGE


@needs_papers
def test_every_field_of_a_certificate_is_in_one_table() -> None:
    (table,) = re.findall(r"\| of \| field .*?\n\n", PAGE, re.DOTALL)
    _, certificate = saved("formula")
    for field in dataclasses.fields(certificate):
        assert f"| `Certificate` | `{field.name}` |" in table
    claims = {of for of, _ in reference.certificate_rows()}
    assert {"OneLayerClaim", "Composite", "PromptClaim", "GridClaim", "MeasuredClaim", "Terms", "Leaf"} <= claims


def test_every_error_of_ours_is_listed() -> None:
    known = {cls.__name__ for cls in vars(errors).values() if inspect.isclass(cls) and issubclass(cls, Exception)}
    assert known == set(errors.__all__)
    raised = re.compile(r"^class ([A-Z]\w*)\(.*(?:Error|Exception|Unsupported\w+)\b.*\):", re.MULTILINE)
    library = [path for path in (ROOT / "src").rglob("*.py") if "papers" not in path.parts]
    found = {name for path in library for name in raised.findall(path.read_text())}
    assert found - known == INSIDE


def test_every_command_and_option_is_there() -> None:
    for name, command in vars(command_group())["commands"].items():
        part = PAGE.split(f"### weightwright {name}\n")[1].split("\n### ")[0]
        for option in command.params:
            told = option.opts[0] if option.opts[0].startswith("-") else option.name.upper()
            assert re.search(rf"^\| `{told}[`,]", part, re.MULTILINE), f"{name} {told}"


def test_the_examples_of_the_page_are_doctests() -> None:
    """Every pycon block is the example of a docstring, and those are run where they stand."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    assert "src" in options["testpaths"]
    assert "--doctest-modules" in options["addopts"]


def test_what_a_docstring_says() -> None:
    def told(a: int, b: int, c: int = 3, **d: int) -> None:
        """Words.

        a, b: two numbers,
        on two lines.

        More words.

        >>> 1
        1
        """

    running, said, example = reference.read(told.__doc__)
    assert running == "Words.\n\n\nMore words."
    assert said == {"a": "two numbers, on two lines.", "b": "two numbers, on two lines."}
    assert example == ">>> 1\n1"
    rows = reference.arguments(told, said, {"d": "shared"})
    assert [(row.name, row.default, bool(row.said)) for row in rows] == [
        ("a", "", True),
        ("b", "", True),
        ("c", "3", False),
        ("**d", "", True),
    ]
