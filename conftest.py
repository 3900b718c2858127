"""What pytest must not import here: doctests are looked for in every file."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/weightwright/runtime/window_triton.py"]
