"""Certificates of networks of several tokens or layers that are false, and networks that are not what theirs says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.support.constructed import SORT, normal
from support.composite_changes import (
    INF,
    MUST_COMPUTE,
    NAN,
    NETWORKS,
    NO_RULE,
    PART,
    WHOLE,
    Change,
    of,
    said,
    with_parts,
    with_target,
)
from support.forging import (
    altered,
    array_places,
    entry,
    nudged,
    proven,
    refused,
    save_forged,
    with_composite,
    with_heads,
    with_values,
)
from support.running import torch_outputs

import weightwright as ww
from weightwright.claims.files import write
from weightwright.claims.kinds import MASKED
from weightwright.claims.target import IDENTITY
from weightwright.papers.claims.ridge_functions import GateClaim, TokenModels
from weightwright.papers.kit.measure import taken

#: A ReLU network of 4 inputs, 3 units and 2 outputs, as torch has it.
RELU = (normal(7, 3, 4) / 2, normal(8, 3), normal(9, 2, 3) / math.sqrt(3), normal(10, 2))
NETS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "one head": lambda: ww.constructions.truncated_linear(normal(1, 2, 2), normal(2, 2), -1.0, 0.5, (-1, 1), p=12),
    "soft": lambda: ww.constructions.truncated_linear(
        normal(1, 2, 2), normal(2, 2), -1.0, 0.5, (-1, 1), p=4, beta=20.0
    ),
    "rows": lambda: ww.constructions.truncated_linear(
        normal(1, 2, 2), normal(2, 2), -1.0, 0.5, (-1, 1), p=6, G=[0, 0, 1, 1, 1, 0], dead_zone=0.02
    ),
    "heads": lambda: ww.constructions.truncated_linear_heads(normal(3, 2), normal(4, 4), -1.0, 0.5, (-1, 1), H=2),
    "registers": lambda: ww.constructions.truncated_linear(
        normal(1, 2, 2) / 2, normal(2, 2) / 2, -0.25, 0.5, (-1, 1), tol=1e-2, method="spectral"
    ),
    "emulated": lambda: ww.constructions.relu_network(SORT, 2, (-1, 1), tol=1e-3),
    "mixing": lambda: ww.constructions.token_mixing(normal(5, 3, 3), normal(6, 2, 2), (-1, 1)),
    "native": lambda: ww.constructions.native_relu(RELU, 2, (-1, 1)),
}
RIDGES = ["emulated", "mixing", "native"]


@cache
def made(kind: str) -> ww.AttentionNetwork:
    return NETS[kind]()


@pytest.mark.parametrize("kind", NETS)
def test_what_is_forged_here_was_right(kind: str, tmp_path: Path) -> None:
    net = made(kind)
    proven(net.network, net.certificate, tmp_path)


@cache
def made_grid() -> Any:
    claim = ww.constructions.bumps("x0 + x1", 2, 1, g=1, norm=1.0).certificate.claim
    return claim


#: The construction with most kinds of claim, and the one without tables.
FEW = ["rows", "native"]
PAPER: dict[str, tuple[Change, str]] = {
    "an integral norm": (
        lambda c: replace(c, claim=made_grid(), formula="x0 + x1"), "the domain is not|no rule covers",
    ),
    "a gate that is not there": (lambda c: with_composite(c, gates=(GateClaim(0, 99, 0),)), "that layer 0 lacks"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("change", [*WHOLE, *PAPER])
def test_false_claims_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, said = (WHOLE | PAPER)[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, said)


def test_keys_that_are_masked_must_be_told(tmp_path: Path) -> None:
    """Values that tokens hold too are not hidden in a plain Transformer: the certificate has to say so."""
    net = made("registers")
    network = with_heads(net.network, lambda heads: tuple(replace(h, W_V=nudged(h.W_V, (0, 0), 1.0)) for h in heads))
    told = replace(net.certificate, network=ww.AttentionNetwork(network).digest())
    assert MASKED in told.assumptions
    save_forged(network, told, tmp_path / "net.safetensors")
    assert ww.check(tmp_path / "net.safetensors").status == "PROVEN"
    silent = replace(told, assumptions=tuple(a for a in told.assumptions if a != MASKED))
    refused(network, silent, tmp_path, "hides that keys are masked")


@pytest.mark.parametrize("kind", ["rows", "emulated"])
@pytest.mark.parametrize("change", PART)
def test_false_claims_about_parts_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, words = PART[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, words)


def switched(c: Any) -> Any:
    """Every token claims the other's units."""
    return with_composite(
        c, parts=tuple(replace(p, units=(*p.units[1:2], *p.units[:1], *p.units[2:])) for p in of(c).parts)
    )


#: Of truncated linear models: the declared target is another one.
MODEL: dict[str, tuple[Change, str]] = {
    "another weight": (
        lambda c: with_target(c, weights=nudged(of(c).target.weights, (0, 0), 1e-6)), "rounding: |the claim covers",
    ),
    "a weight of the last token": (
        lambda c: with_target(c, weights=nudged(of(c).target.weights, (-1, -1), -1e-6)), "rounding: |the claim covers",
    ),
    "another shift": (
        lambda c: with_target(c, shifts=nudged(of(c).target.shifts, 0, 1e-6)), "rounding: |the claim covers",
    ),
    "models in another order": (
        lambda c: with_target(c, weights=of(c).target.weights[::-1], shifts=of(c).target.shifts[::-1]),
        "rounding: |the claim covers",
    ),
    "another range": (
        lambda c: with_target(c, profiles=("clip(x, -1, 0.25)",) * len(of(c).target.profiles)), MUST_COMPUTE,
    ),
    "a profile that is none": (lambda c: with_target(c, profiles=("clip(",) * len(of(c).target.profiles)), "a profile"),
    "no profiles": (lambda c: with_target(c, profiles=()), "do not fit together"),
    "a weight that is no number": (
        lambda c: with_target(c, weights=nudged(of(c).target.weights, (0, 0), NAN)), "not finite",
    ),
    "an infinite shift": (lambda c: with_target(c, shifts=nudged(of(c).target.shifts, 0, INF)), "not finite"),
    "a token too few": (
        lambda c: with_target(c, weights=of(c).target.weights[1:], shifts=of(c).target.shifts[1:]),
        "do not fit together",
    ),
    "shifts too many": (lambda c: with_target(c, shifts=np.append(of(c).target.shifts, 0.0)), "do not fit together"),
    "tokens claim each other's units": (switched, "the claim covers"),
    "the result stands for s itself": (
        lambda c: with_parts(c, units=(IDENTITY,) * len(of(c).parts[0].units)), MUST_COMPUTE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["rows", "heads"])
@pytest.mark.parametrize("change", MODEL)
def test_false_models_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, words = MODEL[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, words)


#: Of networks whose target is a ridge.
RIDGE: dict[str, tuple[Change, str]] = {
    "another output": (
        lambda c: with_target(c, outputs=nudged(of(c).target.outputs, (0, 0), 1e-6)), "rounding: |formula",
    ),
    "another constant": (
        lambda c: with_target(c, constants=nudged(of(c).target.constants, 0, 1e-6)), "rounding: |formula",
    ),
    "outputs in another order": (lambda c: with_target(c, outputs=of(c).target.outputs[::-1]), "rounding: |formula"),
    "an output too few": (
        lambda c: with_target(c, outputs=of(c).target.outputs[1:], constants=of(c).target.constants[1:]), "outputs",
    ),
    "an output that is no number": (
        lambda c: with_target(c, outputs=nudged(of(c).target.outputs, (0, 0), NAN)), "not finite",
    ),
    "constants without numbers": (lambda c: with_target(c, constants=of(c).target.constants + INF), "not finite"),
    "a unit more": (lambda c: with_target(c, profiles=(*of(c).target.profiles, "relu(x)")), "do not fit together"),
    "models instead": (
        lambda c: with_composite(c, target=TokenModels(("relu(x)",), np.ones((9, 1)), np.zeros(9))),
        "fit together|formulas",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RIDGES)
@pytest.mark.parametrize("change", RIDGE)
def test_false_ridges_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    forge, words = RIDGE[change]
    refused(made(kind).network, forge(made(kind).certificate), tmp_path, words)


def with_gates(c: Any, **changes: Any) -> Any:
    return with_composite(c, gates=tuple(replace(gate, **changes) for gate in of(c).gates))


N = 4  # inputs of the native network; units come after them
NATIVE: dict[str, tuple[Change, str]] = {
    "gates of other units": (
        lambda c: with_composite(c, gates=tuple(replace(g, unit=(g.unit + 1) % 3) for g in of(c).gates)), "rounding: ",
    ),
    "gates of one unit": (lambda c: with_gates(c, unit=0), "rounding: |before they are computed"),
    # the gate of a unit that is not always 0; without one of those the rule for picking heads shows the same
    "a gate too few": (lambda c: with_composite(c, gates=(*of(c).gates[:2], *of(c).gates[3:])), NO_RULE),
    "a gate twice": (lambda c: with_composite(c, gates=(of(c).gates[0], *of(c).gates)), "claimed twice"),
    "gates of the copies": (lambda c: with_gates(c, layer=0), "."),
    "a unit that is not there": (
        lambda c: with_composite(c, gates=(replace(of(c).gates[0], unit=3), *of(c).gates[1:])), "there is no unit 3",
    ),
    "a negative unit": (
        lambda c: with_composite(c, gates=(replace(of(c).gates[0], unit=-1), *of(c).gates[1:])), "there is no unit -1",
    ),
    "another profile": (
        lambda c: with_target(c, profiles=("abs(x)",) * 3), "a gate computes relu",
    ),
    "another argument": (
        lambda c: with_target(c, arguments=nudged(of(c).target.arguments, (0, 0), 1e-6)), "rounding: ",
    ),
    "another shift": (lambda c: with_target(c, shifts=nudged(of(c).target.shifts, 0, 1e-6)), "rounding: "),
    "another weight of a unit": (
        lambda c: with_target(c, outputs=nudged(of(c).target.outputs, (0, slice(N, None)), 1e-6)), "rounding: ",
    ),
    "a unit of a later unit": (
        lambda c: with_target(c, arguments=nudged(of(c).target.arguments, (0, N + 1), 1.0)), "takes a later unit",
    ),
    "a unit of itself": (
        lambda c: with_target(c, arguments=nudged(of(c).target.arguments, (1, N + 1), 1.0)), "takes a later unit",
    ),
    "a sharper gate": (
        lambda c: replace(c, terms=replace(c.terms, approximation=0.99 * c.terms.approximation)), "approximation: ",
    ),
    "a gate that is a part": (
        lambda c: with_composite(c, parts=(replace(of(made("heads").certificate).parts[0], heads=(0,), layer=1),)),
        ".",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", NATIVE)
def test_false_gates_are_refused(change: str, tmp_path: Path) -> None:
    forge, words = NATIVE[change]
    refused(made("native").network, forge(made("native").certificate), tmp_path, words)


ROWS: dict[str, tuple[Change, str]] = {
    "no zones": (lambda c: with_parts(c, zones=np.zeros((0, 2))), "no box covers|approximation"),
    "narrower zones": (
        lambda c: said(with_parts(c, zones=of(c).parts[0].zones + np.array([0.015, -0.015]))),
        "no box covers|approximation",
    ),
    "zones elsewhere": (lambda c: said(with_parts(c, zones=of(c).parts[0].zones + 0.1)), "no box covers|approximation"),
    "zones that are silent": (
        lambda c: replace(c, assumptions=tuple(a for a in c.assumptions if "nothing is claimed" not in a)),
        "hides a dead zone",
    ),
    "wider zones that are silent": (
        lambda c: with_parts(c, zones=of(c).parts[0].zones + np.array([-0.01, 0.01])), "hides a dead zone",
    ),
    "one row for both": (
        lambda c: with_composite(c, parts=tuple(replace(p, column=0) for p in of(c).parts)), "claim the same head",
    ),
    "a row without a claim": (lambda c: with_composite(c, parts=of(c).parts[:1]), "no claim covers column 1"),
    "rows changed": (
        lambda c: with_composite(c, parts=tuple(replace(p, column=1 - p.column) for p in of(c).parts)), "approximation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", ROWS)
def test_false_rows_are_refused(change: str, tmp_path: Path) -> None:
    forge, words = ROWS[change]
    refused(made("rows").network, forge(made("rows").certificate), tmp_path, words)


def test_formulas_are_those_of_the_relu_network(tmp_path: Path) -> None:
    net = made("emulated")
    c, target = net.certificate, of(net.certificate).formulas
    for formulas in (SORT[::-1], ("min(x0, x1)", "max(x0, x1) + 0.001"), SORT[:1], (*SORT, "x0")):
        refused(net.network, with_composite(c, formulas=replace(target, formulas=tuple(formulas))), tmp_path)
    refused(net.network, with_composite(c, formulas=replace(target, error=-1.0)), tmp_path)
    waves = ww.constructions.relu_network(["x0*x1", "x0"], 2, (-1, 1), tol=0.2)
    c, target = waves.certificate, of(waves.certificate).formulas
    refused(waves.network, with_composite(c, formulas=replace(target, error=0.5 * target.error)), tmp_path)
    refused(waves.network, with_composite(c, formulas=replace(target, boxes=target.boxes[1:])), tmp_path)
    less = replace(c.terms, approximation=c.terms.approximation - target.error)
    refused(waves.network, replace(c, terms=less, bound=c.bound - 0.99 * target.error), tmp_path, "approximation: ")


# networks


@pytest.mark.parametrize("kind", ["heads", "emulated", "native"])
@pytest.mark.parametrize("change", NETWORKS)
def test_other_networks_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    try:
        network = NETWORKS[change](made(kind).network)
    except ww.LawError:
        return  # not even a network: a second layer whose coordinates do not fit
    refused(network, made(kind).certificate, tmp_path)


def test_a_certificate_is_of_one_network(tmp_path: Path) -> None:
    net = made("heads")
    other = with_heads(net.network, lambda heads: (replace(heads[0], role="another"), *heads[1:]))
    write(tmp_path / "net.safetensors", other, net.certificate)
    with pytest.raises(ww.CertificateError, match="about another network"):
        ww.check(tmp_path / "net.safetensors")


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", NETS)
def test_what_is_still_accepted_still_holds(kind: str, tmp_path: Path) -> None:
    """One entry of two dozen arrays of the network, moved by much or by little: the checker refuses, or the network
    is still within the bound. Many a change does nothing, such as a value that nobody reads."""
    net, rng = made(kind), np.random.default_rng(90)
    X = taken(net, net.about.probes(np.random.default_rng(91), 300))
    wanted, refusals, tries = net.about.reference(X), 0, 0
    paths = [path for path in array_places(net.network) if np.size(entry(net.network, path))]
    for path in (paths[i] for i in rng.permutation(len(paths))[:24]):
        array = entry(net.network, path)
        if array.dtype == bool:
            continue
        used, size = np.flatnonzero(array), array.size
        for index in {int(rng.choice(used))} if len(used) else {int(rng.integers(size))}:
            by = float(rng.choice([1e-3, 0.25, -0.5])) * max(1.0, abs(float(array.flat[index])))
            tries += 1
            network = altered(net.network, path, lambda old, index=index, by=by: nudged(old, index, by))
            save_forged(network, net.certificate, tmp_path / "net.safetensors")
            try:
                ww.check(tmp_path / "net.safetensors")
            except ww.CertificateError:
                refusals += 1
                continue
            error = np.abs(torch_outputs(ww.AttentionNetwork(network), X) - wanted)
            assert np.nanmax(error) <= net.certificate.bound, path
    assert refusals > 0.6 * tries


def test_terms_that_are_no_terms(tmp_path: Path) -> None:
    net = made("heads")
    for values in ((NAN, 0.0, 0.0), (0.0, INF, 0.0), (-1.0, 0.0, 0.0), (1, 0.0, 0.0)):
        terms = with_values(net.certificate.terms, *values)
        refused(net.network, replace(net.certificate, terms=terms), tmp_path, "is not a finite number")
