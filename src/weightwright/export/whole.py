"""Files that appear whole or not at all, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(*targets: Path) -> Iterator[list[Path]]:
    """Temporary names beside the targets: moved there if the block succeeds, removed if it does not."""
    partial = [target.with_name(f".{target.name}.{os.getpid()}.partial") for target in targets]
    try:
        yield partial
        for source, target in zip(partial, targets, strict=True):
            os.replace(source, target)
    finally:
        for source in partial:
            source.unlink(missing_ok=True)
