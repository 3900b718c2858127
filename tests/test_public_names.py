"""`dir` of a public module shows its public names, those of estimators and others that are loaded on first use among
them, and nothing else."""

from __future__ import annotations

from importlib import import_module

import pytest

import weightwright as ww
from weightwright.extensions import public_modules

#: Public modules, with what they have besides their `__all__`: modules, and names of a module without one.
MODULES: dict[str, set[str]] = {
    "weightwright": set(),
    "weightwright.errors": set(),
    "weightwright.incontext": set(),
    "weightwright.interpreter": {"library"},
    "weightwright.interpreter.library": {name for names in ww.interpreter.library._HOMES.values() for name in names},
    "weightwright.memory": set(),
    **{f"weightwright.{name}": set() for name in public_modules()},
}


@pytest.mark.parametrize("name", MODULES)
def test_dir_shows_the_public_names_and_nothing_else(name: str) -> None:
    module = import_module(name)
    assert dir(module) == sorted({*getattr(module, "__all__", ()), *MODULES[name]})
    assert not any(public.startswith("_") for public in dir(module))
    for public in dir(module):
        assert getattr(module, public) is not None


def test_every_public_module_of_the_package_is_looked_at() -> None:
    modules = {f"weightwright.{name}" for name in ww.__all__ if type(getattr(ww, name)) is type(ww)}
    assert modules < set(MODULES)


def test_estimators_are_shown() -> None:
    assert {"Ridge", "Lasso", "LogisticRegression", "HuberRegressor"} < set(dir(ww.incontext))
