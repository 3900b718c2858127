"""Each extra, missing: in a process that cannot import it all else works, and what needs it says what to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weightwright.errors import install_line

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: What an extra brings, and a call that needs it. `experiments` and `ray` are for no feature of the package.
FEATURES = {
    "plot": (["matplotlib"], "net.plot('net.png')"),
    "onnx": (["onnx", "onnxruntime"], "net.to_onnx('net.onnx')"),
    "lens": (["transformer_lens"], "net.to_transformer_lens()"),
    "sklearn": (["sklearn"], "ww.incontext.Ridge()"),
    "graph": (["networkx"], "net.circuit().to_networkx()"),
}
FEATURELESS = {"experiments", "ray"}

PROGRAM = """
import sys
for name in {missing}:
    sys.modules[name] = None
import weightwright as ww
net = ww.approximate("sin(5*x)", (-1, 1), 1e-6)
net.save("net.safetensors")
print(ww.load("net.safetensors").certificate.status)
{calls}
"""
CALL = """
try:
    {call}
except ww.WeightwrightError as error:
    print(type(error).__name__, isinstance(error, ImportError), error)
"""


def run(missing: list[str], calls: str, folder: Path) -> list[str]:
    program = PROGRAM.format(missing=missing, calls=calls)
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_without_any_extra_each_feature_says_what_to_install(tmp_path: Path) -> None:
    missing = [name for names, _ in FEATURES.values() for name in names]
    first, *said = run(missing, "".join(CALL.format(call=call) for _, call in FEATURES.values()), tmp_path)
    assert first == "PROVEN"
    assert len(said) == len(FEATURES)
    for extra, line in zip(FEATURES, said, strict=True):
        assert line.startswith("MissingExtraError True "), line
        assert line.endswith(f": {install_line(extra)}"), line
    assert [path.name for path in tmp_path.iterdir()] == ["net.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("extra", FEATURES)
def test_one_extra_missing_takes_away_its_feature_and_no_other(extra: str, tmp_path: Path) -> None:
    calls = "".join(CALL.format(call=call) for _, call in FEATURES.values())
    first, *said = run(FEATURES[extra][0], calls, tmp_path)
    assert first == "PROVEN"
    (line,) = said
    assert line.endswith(install_line(extra))


def test_every_extra_is_accounted_for_and_installed_by_a_line_of_the_docs() -> None:
    assert set(EXTRAS) == set(FEATURES) | FEATURELESS
    page = (ROOT / "docs" / "install.md").read_text()
    for extra in EXTRAS:
        assert f"\n| `{extra}` | " in page
