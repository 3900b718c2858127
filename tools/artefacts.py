"""Build the wheel and the sdist into dist/, install each into new environments, and use them there.

python tools/artefacts.py

Each environment begins as a copy of one that holds the artefact and what it requires. In it the feature of one extra
says which line installs what is missing, that line is run, and the feature has to work. The second artefact takes the
extra by its name instead, as `ARTEFACT[extra]`. `ray` is left out: it spreads work over machines.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PACKAGE = ROOT / "src" / "weightwright"
#: What an sdist holds beside the package: what is needed to build it, to read about it, and setuptools' own records.
BESIDE = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}

_NET = "import weightwright as ww; net = ww.approximate('sin(5*x)', (-1, 1), 1e-6); "
#: The command that uses an extra, in the words after `python`.
FEATURES = {
    "plot": ["-c", _NET + "net.plot('net.png'); net.draw('net.svg')"],
    "onnx": ["-c", _NET + "net.to_onnx('net.onnx')"],
    "lens": ["-c", _NET + "net.to_transformer_lens().model"],
    "sklearn": [
        "-c",
        "import numpy as np; from weightwright.incontext import Ridge; "
        "X = np.arange(12.0).reshape(6, 2) % 5; print(Ridge().fit(X, X[:, 0]).coef_)",
    ],
    "graph": ["-c", _NET + "print(net.circuit().to_networkx())"],
    "experiments": ["-m", "weightwright.cli", "reproduce", "AE-E4", "--quick", "--seeds", "1", "--jobs", "1"],
}


def package_files() -> set[str]:
    """The files of the package, from its folder on."""
    paths = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PACKAGE.parent).as_posix() for path in paths}


def check_wheel(wheel: Path) -> None:
    """It holds the package and its metadata, all of it and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    found = {name for name in names if ".dist-info/" not in name}
    if found != package_files():
        raise SystemExit(f"{wheel.name}: wanting or too much: {sorted(found ^ package_files())}")


def check_sdist(sdist: Path) -> None:
    """It holds the package and what builds it, all of it and nothing else."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    found = {name for name in names if ".egg-info/" not in name}
    wanted = {f"src/{name}" for name in package_files()} | BESIDE
    if found != wanted:
        raise SystemExit(f"{sdist.name}: wanting or too much: {sorted(found ^ wanted)}")


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder, without what this environment would add to its imports."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["WEIGHTWRIGHT_CACHE"] = "off"
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def demand(command: list[str], folder: Path) -> str:
    """What a command prints; the end where it fails."""
    ran = run(command, folder)
    if ran.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what:56} {time.perf_counter() - start:6.1f} s", flush=True)


def size(path: Path) -> str:
    """Of a file, or of all files in a folder; links are not followed."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if not file.is_symlink()]
    total = sum(file.lstat().st_size for file in files if file.is_file())
    return f"{total / 1e6:,.2f} MB" if total < 1e7 else f"{total / 1e6:,.0f} MB"


def build() -> tuple[Path, Path]:
    """The wheel, made from the sdist, and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    demand([sys.executable, "-m", "build", "--outdir", str(DIST)], ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    return wheel, sdist


def install(environment: Path, requirements: list[str]) -> None:
    """By pip, in the versions of constraints.txt."""
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    demand([*pip, "-c", str(ROOT / "constraints.txt"), *requirements], environment)


def first_block() -> tuple[str, str]:
    """The README's first Python program, and what it says that this prints."""
    found = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if found is None:
        raise SystemExit("README.md has no Python block with what it prints")
    return found[1], found[2]


def try_out(environment: Path, folder: Path) -> None:
    """The README's first block, and three commands."""
    program, prints = first_block()
    printed = demand([str(environment / "bin" / "python"), "-c", program], folder)
    if printed != prints:
        raise SystemExit(f"README.md says\n{prints}but the program prints\n{printed}")
    command = str(environment / "bin" / "weightwright")
    demand(
        [command, "approximate", "sin(5*x)", "--domain", "-1", "1", "--tol", "1e-8", "--out", "net.safetensors"], folder
    )
    for words, said in ((["check", "net.safetensors"], "PROVEN"), (["run", "net.safetensors", "0.1", "0.2"], "0.8414")):
        if said not in (printed := demand([command, *words], folder)):
            raise SystemExit(f"weightwright {shlex.join(words)} prints no {said}:\n{printed}")


def use_extra(environment: Path, folder: Path, extra: str) -> int:
    """The feature of an extra, once the lines that it asks for have been run; how many there were."""
    command = [str(environment / "bin" / "python"), *FEATURES[extra]]
    for lines in range(3):
        ran = run(command, folder)
        if ran.returncode == 0:
            return lines
        asked = re.findall(r'pip install (".*")', ran.stderr)
        if not asked:
            raise SystemExit(f"{extra}: {ran.stdout}{ran.stderr}")
        install(environment, shlex.split(asked[-1]))
    raise SystemExit(f"{extra} asks for more after three lines: {asked[-1]}")


def copy(environment: Path, place: Path) -> Path:
    """Another environment with the same files, which are hard links: pip replaces files and changes none."""
    return shutil.copytree(environment, place, symlinks=True, copy_function=os.link)


def try_artefact(artefact: Path, by_name: bool, place: Path) -> None:
    """Every environment of one artefact, in a folder of its own."""
    base, folder = place / "base", place / "work"
    folder.mkdir(parents=True)
    demand([sys.executable, "-m", "venv", str(base)], place)
    with timed(f"{artefact.name}: installed"):
        install(base, [str(artefact)])
    print(f"{'':2}with what it requires: {size(base)}")
    with timed("  README's first block; approximate, check, run"):
        try_out(base, folder)
    for extra in FEATURES:
        environment = copy(base, place / extra)
        with timed(f"  extra {extra}"):
            if by_name:
                install(environment, [f"{artefact}[{extra}]"])
            lines = use_extra(environment, folder, extra)
        if by_name and lines:
            raise SystemExit(f"{artefact.name}[{extra}] does not install all that the feature needs")
        grown = f"{size(environment)} in all"
        print(f"{'':4}{'by its name' if by_name else f'lines that the feature asked for: {lines}'}; {grown}")
        shutil.rmtree(environment)


def main() -> None:
    start = time.perf_counter()
    with timed("built"):
        wheel, sdist = build()
    for artefact in (wheel, sdist):
        print(f"  {artefact.name}: {size(artefact)}")
    with tempfile.TemporaryDirectory() as place:
        try_artefact(wheel, False, Path(place) / "wheel")
        try_artefact(sdist, True, Path(place) / "sdist")
    print(f"all of it{time.perf_counter() - start:54.0f} s")


if __name__ == "__main__":
    main()
