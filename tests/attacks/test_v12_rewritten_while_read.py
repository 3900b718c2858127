"""A file that is rewritten in place while it is read: an error or one of its contents, and the reader lives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import weightwright as ww

#: Reads the file once for each call that reading makes until its contents are decoded, and has the file rewritten at
#: that call: every place at which another process could do it. argv: the file, one that takes its place, how.
READER = """
import json, sys
from collections import Counter
from weightwright.claims.files import network_digest, read
from weightwright.errors import FileFormatError

path, other, how = sys.argv[1:]
with open(path, "rb") as file:
    whole = file.read()
with open(other, "rb") as file:
    replacement = b"" if how == "cut" else file.read()
known = {network_digest(read(one)[0]): name for one, name in ((path, "the old"), (other, "the new"))}

def rewrite(contents):
    with open(path, "wb") as file:
        file.write(contents)

def read_rewritten_at(place):
    calls = 0
    def profile(frame, event, _):
        nonlocal calls
        if event not in ("call", "c_call"):
            return
        calls += 1
        if calls == place:
            sys.setprofile(None)
            rewrite(replacement)
    rewrite(whole)
    sys.setprofile(profile)
    try:
        network = read(path)[0]
    except FileFormatError:
        return "refused"
    finally:
        sys.setprofile(None)
    return known.get(network_digest(network), "a mixture")

print(json.dumps(Counter(read_rewritten_at(place) for place in range(1, 160))))
"""


def test_the_reader_lives_and_sees_no_mixture(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    path, other = tmp_path / "net.safetensors", tmp_path / "other.safetensors"
    ww.approximate("cos(5*x)", (-1, 1), 1e-8, progress=False).save(other)
    for how, outcome in (("replaced", "the new"), ("cut", "refused")):
        sine.save(path)
        arguments = [sys.executable, "-c", READER, str(path), str(other), how]
        found = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert found.returncode == 0, f"the reader ended with {found.returncode}: {found.stderr}"
        seen = json.loads(found.stdout)
        assert "a mixture" not in seen
        assert seen["the old"] > 20
        assert seen[outcome] > 0
