"""What pytest must not import here: doctests are looked for in every file. A run begins with an empty cache of tables
and networks, which its workers share: what one test found and proved, another takes, and the checker examines again."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["WEIGHTWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="weightwright-")
    atexit.register(shutil.rmtree, os.environ["WEIGHTWRIGHT_CACHE"], ignore_errors=True)

collect_ignore = (
    []
    if find_spec("triton")
    else [
        f"src/weightwright/runtime/kernels/{name}.py"
        for name in ("launcher", "layer_triton", "table_triton", "window_triton")
    ]
)
