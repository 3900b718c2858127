"""Sub-packages that plug into the library by themselves.

Each folder of the package with a file `extension.py` is an extension: the file holds one `EXTENSION` and imports
nothing heavy. The library names no extension; what it lacks when a folder is deleted is what that folder registered.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Extension:
    """What a folder adds, by the places of modules: "package.module", or "package.module:name".

    modules: public modules: "constructions" is `weightwright.constructions`.
    names: further names of public modules of the library, by module: {"incontext": {"curve": "package.module"}}.
    hooks: what the library's tables take, by the name of the table; its module says what the entries are.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@cache
def extensions() -> tuple[Extension, ...]:
    """All of them, in the order of their folders' names."""
    folders = sorted(path.parent.name for path in _PACKAGE.glob("*/extension.py"))
    return tuple(import_module(f"weightwright.{folder}.extension").EXTENSION for folder in folders)


@cache
def registered(hook: str) -> tuple[Any, ...]:
    """What extensions register for a table of the library."""
    return tuple(_find(place) for extension in extensions() for place in extension.hooks.get(hook, ()))


def registry(hook: str, own: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """A table of the library, by key, with what extensions register for it. None of them replaces an entry."""
    table = dict(own or {})
    for added in registered(hook):
        if twice := table.keys() & added.keys():
            raise RuntimeError(
                f"an extension registers {hook!r} for {min(map(str, twice))}, which has an entry already"
            )
        table |= added
    return table


def added_names(module: str) -> dict[str, str]:
    """Names that extensions add to a public module, with the places of the modules that have them."""
    return {name: place for extension in extensions() for name, place in extension.names.get(module, {}).items()}


def public_modules() -> list[str]:
    """Public modules of extensions. Each can be imported by its public name from now on."""
    found = []
    for extension in extensions():
        for name, place in extension.modules.items():
            sys.modules.setdefault(f"weightwright.{name}", import_module(place))
            found.append(name)
    return found


def _find(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)
