"""What pytest must not import here: doctests are looked for in every file. Tests find everything anew."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ["WEIGHTWRIGHT_CACHE"] = "off"

collect_ignore = (
    []
    if find_spec("triton")
    else [
        f"src/weightwright/runtime/kernels/{name}.py"
        for name in ("launcher", "layer_triton", "table_triton", "window_triton")
    ]
)
