"""Networks of a size are kept on disk, and checked again when they are loaded: half of what building one takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from weightwright.claims.files import encode_file
from weightwright.errors import WeightwrightError
from weightwright.kept import keep, kept_path
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.loading import load


def build_or_load(build: Callable[[], AttentionNetwork], *asked: Hashable) -> AttentionNetwork:
    """The network that `build` makes, or the one that it made in an earlier process for the same that is asked.

    A file that the checker does not agree with, or that is damaged, counts as none: the network is built anew."""
    path = kept_path("safetensors", *asked)
    if path is not None and path.exists():
        try:
            return load(path)
        except (WeightwrightError, OSError):
            path.unlink(missing_ok=True)
    net = build()
    keep(path, lambda partial: partial.write_bytes(encode_file(*net.stored())))
    return net
