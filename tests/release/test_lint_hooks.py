"""pre-commit and `make lint` run the same checks in the same versions; the workflows call the same commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: What `make lint` calls where pre-commit has this hook.
COMMANDS = {
    "ruff-check": "ruff check",
    "ruff-format": "ruff format --check",
    "mypy": "mypy",
    "codespell": "codespell",
    "rumdl": "rumdl check",
    "zizmor": "zizmor --offline",
    "check-yaml": "check-yaml",
    "check-toml": "check-toml",
    "text-unicode-replacement-char": "! grep",
}
#: Where a hook's repository has another name than its package.
PACKAGES = {"ruff-pre-commit": "ruff", "rumdl-pre-commit": "rumdl", "zizmor-pre-commit": "zizmor"}


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, without their folder."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return [line.strip().removeprefix("$(BIN)/") for line in found[1].splitlines()]


def repositories() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    return found


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    return found


def runs(name: str) -> list[str]:
    """The commands of a workflow."""
    return [step["run"] for job in workflow(name)["jobs"].values() for step in job["steps"] if "run" in step]


def test_every_hook_is_a_command_of_make_lint_and_the_other_way_round() -> None:
    hooks = [hook["id"] for repository in repositories() for hook in repository["hooks"]]
    assert sorted(hooks) == sorted(COMMANDS)
    lines = recipe("lint")
    assert len(lines) == len(COMMANDS)
    for command in COMMANDS.values():
        assert sum(re.match(rf"{re.escape(command)}(\s|$)", line) is not None for line in lines) == 1, command


def test_hooks_have_the_versions_of_the_lock() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    for repository in repositories():
        name = repository["repo"].rpartition("/")[2]
        if name not in ("local", "pygrep-hooks"):  # the second is no package: make calls grep
            version = repository["rev"].removeprefix("v")
            assert f"\n{PACKAGES.get(name, name)}=={version} " in constraints, f"{name} {version}"


def test_workflows_call_what_developers_call() -> None:
    assert runs("tests") == [".ci/run"]
    assert runs("lint") == ["make lint"]
    assert runs("release")[-1] == "make dist"
    assert recipe("test")[0].endswith("pytest -n 2 -m 'not slow'")
    assert "make test" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_only_publishing_may_ask_for_a_token_and_only_on_a_tag() -> None:
    for name in ("tests", "lint", "release"):
        assert workflow(name)["permissions"] == {"contents": "read"}
        for job, what in workflow(name)["jobs"].items():
            asks = what.get("permissions", {})
            assert asks == ({"id-token": "write"} if job == "publish" else {})
            assert (what.get("if") == "startsWith(github.ref, 'refs/tags/')") == (job == "publish")
            for step in what["steps"]:
                assert "uses" not in step or re.search(r"@[0-9a-f]{40}$", step["uses"]), step
