"""A row of the registry: what a theorem says, where it stands, what was repaired, and where its code is.

Only words and import paths: listing the theorems imports no numpy and builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from weightwright.papers.kit.instance import Instance
    from weightwright.papers.kit.rates import Study

Expected = Literal["PROVEN", "MEASURED"]


@dataclass(frozen=True)
class Theorem:
    """One id of the mission map.

    statement, repaired and rate are in words; repaired has a line for each deviation from the text. expects: what the
    small instance should come out as; `show` says what it did. home: the module that has the construction. small:
    "module:function" of a function that takes nothing and returns an `Instance`.
    """

    id: str
    title: str
    statement: str
    source: str
    repaired: str
    rate: str
    expects: Expected
    home: str
    small: str

    @property
    def deviations(self) -> tuple[str, ...]:
        """Where we deviate from the text, one by one."""
        return tuple(self.repaired.split("\n"))

    @property
    def file(self) -> str:
        """Where the construction stands, from the repository's root."""
        return f"src/{self.home.replace('.', '/')}.py"

    @property
    def built(self) -> bool:
        """Whether the construction is there at all; nothing of it is imported."""
        try:
            return find_spec(self.home) is not None
        except ModuleNotFoundError:  # not even the package
            return False

    def instance(self) -> Instance:
        """Build the small instance, once in a process: UA-14 counts the others'."""
        return _instance(self.small)

    def measured_studies(self) -> tuple[Study, ...]:
        """Run the studies that are asked for; those of the instance where it has no others."""
        instance = self.instance()
        return instance.studies if instance.rates is None else instance.rates()


@cache
def _instance(path: str) -> Instance:
    instance: Instance = resolve(path)()
    return instance


def resolve(path: str) -> Callable[[], Any]:
    """The function that "module:function" names."""
    module, _, name = path.partition(":")
    function: Callable[[], Any] = getattr(import_module(module), name)
    return function
