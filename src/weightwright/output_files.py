"""Files that are written: whether one can be, said before the work begins; and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


def check_writable(path: str | os.PathLike[str], *endings: str) -> Path:
    """The path, or an error that says what would stop the file from being written. endings: one that it must have.

    >>> check_writable("net.pt", ".safetensors")
    Traceback (most recent call last):
    ValueError: cannot write net.pt: the name must end in .safetensors; write net.safetensors
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file, not {path!r}")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder; name a file in it")
    if endings and target.suffix.lower() not in endings:
        kinds = endings[0] if len(endings) == 1 else f"one of {', '.join(endings)}"
        raise ValueError(f"cannot write {target}: the name must end in {kinds}; write {target.with_suffix(endings[0])}")
    if target.parent.exists() and not target.parent.is_dir():
        raise NotADirectoryError(f"cannot write {target}: {target.parent} is a file, not a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}; make it first")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"cannot write {target}: the folder {target.parent} is not yours to write to")
    return target


@contextmanager
def whole(*targets: Path) -> Iterator[list[Path]]:
    """Temporary names beside the targets: moved there if the block succeeds, removed if it does not. Each is in a new
    folder that no other thread or process knows, and is moved by one rename: readers see the old file or the new one.
    """
    for target in targets:
        check_writable(target)
    with ExitStack() as folders:
        partial = [Path(folders.enter_context(_own_folder(target.parent))) / target.name for target in targets]
        yield partial
        for source, target in zip(partial, targets, strict=True):
            os.replace(source, target)


def _own_folder(parent: Path) -> TemporaryDirectory[str]:
    """Names that begin with a dot are not listed, and `kept` does not count them."""
    return TemporaryDirectory(prefix=".", suffix=".partial", dir=parent, ignore_cleanup_errors=True)
