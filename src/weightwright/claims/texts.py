"""Free text between words of ours, and digests in the place of what is too long to be told."""

from __future__ import annotations

import json
from typing import Any

from weightwright.network.storage import ArrayWriter, digest, encode

#: Hexadecimal digits of a digest that are shown.
DIGITS = 16


def quoted(name: str) -> str:
    """Free text that is seen to be some: in quotes, on one line, and without marks that a screen obeys."""
    return on_one_line(json.dumps(name, ensure_ascii=False))


def on_one_line(text: str) -> str:
    """Free text between words of ours: no line break, and no mark that a screen obeys.

    >>> print(on_one_line("x" + chr(27) + "[2K"))
    x\\u001b[2K
    """
    return "".join(mark if mark.isprintable() else json.dumps(mark)[1:-1] for mark in text)


def short_digest(value: Any) -> str:
    """The digest of stored data, as its file would hold it."""
    arrays = ArrayWriter()
    structure = encode(value, arrays)
    return f"sha256 {digest({'value': structure, 'arrays': arrays.rows}, arrays.pools())[:DIGITS]}"
