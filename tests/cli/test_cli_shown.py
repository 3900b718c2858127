"""What the command line shows at 80 and 120 columns: whole words, flags as flags, nothing cut."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.command_line import helps_in_whole_words, printed, weightwright

UNIT = ("--domain", "-1 1", "--tol", "1e-3")


def test_lines_do_not_end_in_spaces_where_a_program_reads_them() -> None:
    for line in printed("approximate", "x", *UNIT).splitlines():
        assert line == line.rstrip()


def test_what_is_too_small_to_mean_anything_is_told_so() -> None:
    lines = [line.split() for line in printed("approximate", "sin(x)", *UNIT).splitlines()]
    assert ["leakage", "<", "1e-99"] in lines


@pytest.mark.parametrize("command", ["approximate", "compile", "run", "check", "info", "selftest"])
def test_help_shows_flags_as_flags_and_whole_choices(command: str) -> None:
    helps_in_whole_words(command)


def test_completion_is_there() -> None:
    assert "--show-completion" in weightwright("--help").stdout


def test_importing_weightwright_does_not_wait_for_torch() -> None:
    code = "import sys, weightwright as ww; print({'torch', 'scipy', 'rich', 'flint'} & set(sys.modules), dir(ww))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("set() [")
    assert "'approximate'" in said
