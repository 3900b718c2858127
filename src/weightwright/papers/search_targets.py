"""Ridges and models as the search for the worst input compares networks with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import series, series_along
from weightwright.enclosures.intervals.jets import values, values_at
from weightwright.expressions import parse
from weightwright.numbers import Bools, Floats
from weightwright.papers.checker.declared_targets import Affine, Declared
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels


@dataclass(frozen=True)
class DeclaredTarget:
    composite: Composite
    N: int

    @property
    def declared(self) -> Declared:
        assert isinstance(self.composite.target, RidgeFunctions | TokenModels)
        return Declared(self.composite.target, self.N)

    def rough(self, x: Floats) -> Floats:
        """All outputs in plain floats, (count, N) -> (count, outputs)."""
        if self.composite.formulas is not None:
            names = tuple(f"x{i}" for i in range(self.N))
            return np.stack([values_at(parse(f, names), names, x) for f in self.composite.formulas.formulas], axis=1)
        declared, known = self.declared, x
        for unit in range(declared.units):
            argument = _affine(declared.argument(unit), known)
            known = np.column_stack([known, values(parse(declared.profile(unit), ("x",)), argument)])
        return np.stack([_affine(declared.output(i), known) for i in range(declared.outputs)], axis=1)

    def exact(self, x: Floats, index: int) -> arb:
        """One output, as a ball."""
        if self.composite.formulas is not None:
            names = tuple(f"x{i}" for i in range(self.N))
            lines = {name: (arb(float(value)), arb(0)) for name, value in zip(names, x, strict=True)}
            return series_along(parse(self.composite.formulas.formulas[index], names), lines, 0)[0]
        declared, known = self.declared, {i: arb(float(value)) for i, value in enumerate(x)}
        return self._exact(declared.output(index), declared, known)

    def _exact(self, affine: Affine, declared: Declared, known: dict[int, arb]) -> arb:
        total = arb(affine.constant)
        for place, weight in zip(affine.places, affine.weights.tolist(), strict=True):
            if place not in known:
                argument = self._exact(declared.argument(place - self.N), declared, known)
                profile = parse(declared.profile(place - self.N), ("x",))
                known[place] = series(profile, argument, 0)[0]
            total += arb(weight) * known[place]
        return total

    def in_zones(self, x: Floats) -> Bools:
        """Which inputs have a unit's argument in a dead zone, as far as floats can tell."""
        inside, declared, known = np.zeros(len(x), dtype=bool), self.declared, x
        parts = [part for part in self.composite.parts if len(part.zones)]
        zones = [(unit, part.zones) for part in parts for unit in sorted({unit for unit in part.units if unit >= 0})]
        deep = any(max(declared.argument(unit).places, default=0) >= self.N for unit, _ in zones)
        for unit in range(declared.units) if deep else ():
            argument = _affine(declared.argument(unit), known)
            known = np.column_stack([known, values(parse(declared.profile(unit), ("x",)), argument)])
        for unit, found in zones:
            s = _affine(declared.argument(unit), known)
            room = 1e-12 * (1 + np.abs(s))
            for start, end in found.tolist():
                inside |= (s > start - room) & (s < end + room)
        return inside

    def aimed(self, rng: np.random.Generator, x: Floats, lo: Floats, hi: Floats, places: Floats) -> Floats:
        """Every input moved so that a random unit of the inputs alone has its argument at one of the places."""
        declared = self.declared
        units = [declared.argument(unit) for unit in range(declared.units)]
        plain = [unit for unit in units if len(unit.places) and max(unit.places) < self.N]
        if not plain or not len(places):
            return x
        for row in range(len(x)):
            for unit in rng.choice(len(plain), 2):
                affine = plain[unit]
                wanted = rng.choice(places) + rng.choice([0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-4, -1e-4])
                for _ in range(2):  # what is cut off at the faces is made up for along the other inputs
                    missing = wanted - _affine(affine, x[row : row + 1])[0]
                    step = missing * affine.weights / max(float(affine.weights @ affine.weights), 1e-300)
                    x[row, affine.places] = np.clip(x[row, affine.places] + step, lo[affine.places], hi[affine.places])
        return x


def _affine(affine: Affine, known: Floats) -> Floats:
    total: Floats = known[:, affine.places] @ affine.weights + affine.constant
    return total


SEARCH_TARGETS = {RidgeFunctions: DeclaredTarget, TokenModels: DeclaredTarget}
