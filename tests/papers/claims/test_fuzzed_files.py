"""A few hundred mutated files: benchmarks/fuzz_files.py runs many thousands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fuzz_files
import numpy as np
import pytest
from flint import arb
from fuzz_files import MUTATIONS, Summary, examine, fuzz
from fuzz_formulas import UnreadableError, read_formulas
from fuzz_mutations import SAVED as FOLDERS
from fuzz_mutations import consistent
from fuzz_readers import Readers, strange_lines
from fuzz_truth import value, worst_violation
from fuzz_zones import most_hits
from support.stored import certified_file

import weightwright as ww
from weightwright.checker.check import rules
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import encode_file
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.claims.prompt import LoopClaim
from weightwright.limits import Limits

SAVED = {path.stem: path for folder in FOLDERS for path in folder.glob("*.safetensors")}
PROVEN = sorted(SAVED.keys() - {"no_certificate"})
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("count", [50, pytest.param(160, marks=pytest.mark.slow)])
def test_mutated_files_break_no_promise(count: int, tmp_path: Path) -> None:
    found = fuzz(seed=7, start=0, count=count, everything=False, folder=tmp_path)
    assert found.broken == []
    assert found.accepted > count / 10
    assert found.count("CertificateError") > count / 4
    assert found.count("FileFormatError") > count / 30
    assert {kind for kind, _ in found.outcomes} == set(MUTATIONS)
    assert found.readers.read["formulas"] > count / 60


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_false_would_be_seen(name: str) -> None:
    """With a bound below 0 every claim is false, and inputs show it; with its own none of them do."""
    network, said = certified_file(SAVED[name])
    if said.measured is not None:
        return
    rng = np.random.default_rng(0)
    assert worst_violation(network, said, rng) is None
    assert worst_violation(network, replace(said, bound=-1.0), rng) is not None


def test_a_crash_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path, summary = SAVED["formula"], Summary()

    def crash(*_: object) -> None:
        raise KeyError("a bug")

    assert examine(path, np.random.default_rng(0), summary) is None
    monkeypatch.setattr("weightwright.claims.files._contents", crash)
    assert "a bug" in (examine(path, np.random.default_rng(0), summary) or "")
    assert not issubclass(KeyError, ww.WeightwrightError)


# a checker that lets something misleading pass


def changed(name: str, folder: Path, change: Callable[[Any, Certificate], Certificate]) -> Path:
    """A saved file with something else in its certificate, and all that must fit it."""
    network, said = certified_file(SAVED[name])
    path = folder / "changed.safetensors"
    path.write_bytes(encode_file(network, change(network, said)))
    return path


def seen(path: Path) -> str:
    return examine(path, np.random.default_rng(0), Summary()) or ""


def with_wide_zone(network: Any, said: Certificate) -> Certificate:
    return consistent(network, replace(said, claim=replace(said.claim, dead_zones=((-0.5, 0.25),))))  # type: ignore[call-arg]


def with_name(name: str) -> Callable[[Any, Certificate], Certificate]:
    def named(network: Any, said: Certificate) -> Certificate:
        target = replace(said.claim.target, name=name)  # type: ignore[union-attr]
        return replace(said, claim=replace(said.claim, target=target))  # type: ignore[call-arg]

    return named


def zones_are(change: Callable[[Any], tuple[Any, ...]], monkeypatch: Patch) -> None:
    """The rule for one layer finds other dead zones than there are."""
    rule = rules()[OneLayerClaim]
    monkeypatch.setitem(rules(), OneLayerClaim, lambda *about: change(rule(*about)))


def test_a_hidden_dead_zone_would_be_seen(monkeypatch: Patch) -> None:
    path = SAVED["dead_zones"]
    assert seen(path) == ""
    zones_are(lambda zones: (), monkeypatch)
    assert "MISLEADING: zones_are_shown: the zone from -0.01 to 0.01 is not shown" in seen(path)


def test_a_small_share_of_a_wide_zone_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path = changed("dead_zones", tmp_path, with_wide_zone)
    assert seen(path) == ""
    zones_are(lambda zones: tuple(replace(zone, share=0.005) for zone in zones), monkeypatch)
    assert "lie in dead zones that are said to cover 0.005 of the domain" in seen(path)


def test_a_wide_zone_that_is_proven_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path = changed("dead_zones", tmp_path, with_wide_zone)
    monkeypatch.setattr("weightwright.checker.check.dead_share", lambda: 1.0)
    assert "MISLEADING: zones_are_shown: zones that cover [0.375] of the domain, and the status is PROVEN" in seen(path)


def test_a_network_that_runs_in_a_dead_zone_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path = changed("dead_zones", tmp_path, with_wide_zone)
    monkeypatch.setattr("weightwright.runtime.admission.Domain._refuse_dead", lambda *_: None)
    assert "MISLEADING: shares_are_right: the network runs in a dead zone" in seen(path)
    monkeypatch.setattr(Certificate, "dead_zones", ())
    assert "MISLEADING: shares_are_right: an input in a dead zone is certified" in seen(path)


def test_a_name_that_is_shown_as_a_formula_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path = changed("graph", tmp_path, lambda n, said: replace(with_name("sin(5*x)")(n, said), formula="sin(5*x)"))
    assert seen(path) == ""
    monkeypatch.setattr("weightwright.claims.target.Composite.in_words", lambda composite: composite.name)
    assert "MISLEADING: formula: 'sin(5*x)' at" in seen(path)


def test_a_name_without_quotes_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    path = changed("graph", tmp_path, with_name("PROVEN for every input"))
    assert seen(path) == ""
    monkeypatch.setattr("weightwright.claims.certificate.quoted", lambda name: name)
    assert "MISLEADING: names: the name 'PROVEN for every input' stands outside of quotes" in seen(path)


def test_one_digest_of_two_functions_would_be_seen() -> None:
    network, said = certified_file(SAVED["graph"])
    target = said.claim.target  # type: ignore[union-attr]
    other = replace(said.claim, target=replace(target, outputs=target.outputs[::-1] + target.outputs))  # type: ignore[call-arg]
    readers, rng = Readers(), np.random.default_rng(0)
    assert readers.misled(network, said, rng) is None
    assert "stands for two functions" in (readers._digest(network, replace(said, claim=other), rng) or "")


def test_a_pass_that_certifies_would_be_seen(monkeypatch: Patch) -> None:
    path = SAVED["loop"]
    assert seen(path) == ""
    monkeypatch.setattr("weightwright.adversary.predictions._bound_of_one_input", lambda net: net.certificate.bound)
    assert "MISLEADING: subject: a bound about a pass certifies predictions" in seen(path)
    monkeypatch.setattr(LoopClaim, "subject", "output")
    assert "MISLEADING: subject: the network runs a loop" in seen(path)


def test_a_bound_that_does_not_say_that_it_is_about_a_pass_would_be_seen(monkeypatch: Patch) -> None:
    monkeypatch.setattr("weightwright.claims.certificate.bound_in_words", lambda said: f"{said.bound!r} on outputs")
    assert "MISLEADING: words: nothing says that the bound is about a pass" in seen(SAVED["loop"])


@pytest.mark.parametrize("name", PROVEN)
def test_saved_files_have_no_assumption_that_no_rule_asks_for(name: str) -> None:
    _, said = certified_file(SAVED[name])
    assert strange_lines(said) == []
    assert strange_lines(replace(said, assumptions=(*said.assumptions, "x is 0"))) == ["x is 0"]


def test_an_assumption_that_no_rule_asks_for_would_be_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    """It could say anything, and rewrite the line above it on a screen."""
    lie = "\x1b[1A\x1b[2KPROVEN output sin(5*x)"
    path = changed("formula", tmp_path, lambda _, said: replace(said, assumptions=(*said.assumptions, lie)))
    assert seen(path) == ""
    monkeypatch.setattr("weightwright.checker.check.known_assumptions", lambda said: set(said.assumptions))
    assert "MISLEADING: an assumption that no rule asks for" in seen(path)


@pytest.mark.parametrize("what", ["seconds", "megabytes"])
def test_a_cost_beyond_its_limit_would_be_seen(what: str, monkeypatch: Patch) -> None:
    path, rule = SAVED["formula"], rules()[OneLayerClaim]
    monkeypatch.setattr(fuzz_files, "LIMITS", Limits(seconds=0.05, megabytes=8.0))

    def wasteful(*about: Any) -> Any:
        if what == "seconds":
            time.sleep(0.35)
        return np.ones(2**23 if what == "megabytes" else 1) is None or rule(*about)

    monkeypatch.setitem(rules(), OneLayerClaim, wasteful)
    assert seen(path).startswith("COST: the check took ")


# how formulas and shares are read


@pytest.mark.parametrize(
    "text", ["-x**2 + 2**-x", "1/x/2 - 3 - 0.1*x", "clip(x, -0.25, 1e-1) - max(x, -x)", "2**x**2", "sign(x)*pi", "(x)"]
)
def test_formulas_mean_what_the_package_says(text: str) -> None:
    at = arb(0.375)
    (found,) = read_formulas(text).at({"x": at}, [at])
    assert abs(found - value(text, ("x",), [at])) < 1e-12


def test_numbers_that_are_cut_off_are_uncertain() -> None:
    (found,) = read_formulas("0.343146...*x[1]").at({}, [arb(0), arb(1)])
    assert found.overlaps(arb(0.3431460001))
    assert not found.overlaps(arb(0.34315))


@pytest.mark.parametrize("text", ["a graph of 4 columns, sha256 0123", "x.real", "f'{x}'", "lambda: x", "x[-1]"])
def test_words_are_no_formulas(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_formulas(text).at({"x": arb(1)}, [arb(1)])


def test_shares_that_are_right_are_not_complained_of() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 1e-4, 0.01, 0.5, 1.0):
        assert rng.binomial(4096, share, 20_000).max() <= most_hits(share) <= 4096 * share + 250 + 30
