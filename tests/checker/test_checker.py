"""The checker believes nothing: every way to change a certificate or a network is refused."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forging import Change, nudged, save_forged, scaled, with_leaf
from support.stored import certified_file

import weightwright as ww
from weightwright.claims.files import write


def forged(path: Path, change: Change) -> Path:
    """The file with another certificate, all digests made to fit: only the claims can give it away."""
    network, certificate = certified_file(path)
    target = path.with_name("forged.safetensors")
    write(target, network, change(certificate))
    return target


def test_an_honest_file_is_proven(saved: Path) -> None:
    certificate = ww.check(saved)
    assert (certificate.status, certificate.formula) == ("PROVEN", "sin(5*x)")


REFUSED: dict[str, tuple[Change, str]] = {
    "a smaller bound": (lambda c: dataclasses.replace(c, bound=c.bound * 0.99), "the bound is"),
    "a bound of zero": (lambda c: dataclasses.replace(c, bound=0.0), "the bound is"),
    "a bound that is no number": (lambda c: dataclasses.replace(c, bound=math.nan), "bound = nan"),
    "smaller network terms": (
        lambda c: dataclasses.replace(c, terms=scaled(c.terms, "approximation", 0.5), bound=c.bound),
        "smaller than its layer's",
    ),
    "a smaller approximation": (
        lambda c: with_leaf(c, terms=scaled(c.claim.leaf.terms, "approximation", 0.5)),
        "approximation on",
    ),
    "a smaller rounding": (lambda c: with_leaf(c, terms=scaled(c.claim.leaf.terms, "rounding", 0.5)), "rounding on"),
    "a smaller leakage": (lambda c: with_leaf(c, terms=scaled(c.claim.leaf.terms, "leakage", 0.0)), "leakage on"),
    "rounding of the network left out": (
        lambda c: dataclasses.replace(c, terms=scaled(c.terms, "rounding", 0.1)),
        "rounding",
    ),
    "a wider domain": (lambda c: dataclasses.replace(c, domain=ww.Box(-1.0, 1.0000001)), "queries range over"),
    "a wider domain and claim": (
        lambda c: with_leaf(dataclasses.replace(c, domain=ww.Box(-1.0, 1.25)), hi=1.25),
        "boxes cover",
    ),
    "another dtype": (lambda c: dataclasses.replace(c, dtype="float32"), "certified for float32"),
    "another kernel": (lambda c: dataclasses.replace(c, kernel="anchor"), "hides an assumption|do not run in kernel"),
    "another formula": (lambda c: dataclasses.replace(c, formula="sin(5.0000001*x)"), "must compute"),
    "another formula, everywhere": (
        lambda c: with_leaf(dataclasses.replace(c, formula="sin(5.0000001*x)"), formula="sin(5.0000001*s)"),
        "approximation on",
    ),
    "a formula that is code": (
        lambda c: dataclasses.replace(c, formula="__import__('os').system('true')"),
        "not part of the language",
    ),
    "a missing box": (lambda c: with_leaf(c, boxes=np.delete(c.claim.leaf.boxes, 3, axis=0)), "no box covers"),
    "no boxes": (lambda c: with_leaf(c, boxes=np.zeros((0, 2))), "boxes of shape"),
    "a missing first box": (lambda c: with_leaf(c, boxes=c.claim.leaf.boxes[1:]), "boxes cover"),
    "a missing last box": (lambda c: with_leaf(c, boxes=c.claim.leaf.boxes[:-1]), "boxes cover"),
    "a box that is NaN": (lambda c: with_leaf(c, boxes=np.full((1, 2), np.nan)), "no interval"),
    "no claim": (lambda c: dataclasses.replace(c, claim=None), "no rule for a claim of type NoneType"),
    "a claim about another layer": (lambda c: with_leaf(c, layer=1), "layer 1"),
    "an unknown rule": (lambda c: with_leaf(c, rule="trust me"), "no rule"),
    "the rule for nearest anchors": (lambda c: with_leaf(c, rule="nearest"), "claimed"),
    "hidden assumptions": (lambda c: dataclasses.replace(c, assumptions=()), "assumption"),
    "a domain of two features": (lambda c: dataclasses.replace(c, domain=ww.Box([-1, -1], [1, 1])), "no interval"),
    "no domain at all": (lambda c: dataclasses.replace(c, domain=None), "malformed"),
    "a certificate of another network": (lambda c: dataclasses.replace(c, network="0" * 64), "another network"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_changed_certificate_is_refused(name: str, saved: Path) -> None:
    change, reason = REFUSED[name]
    with pytest.raises(ww.CertificateError, match=reason):
        ww.check(forged(saved, change))


def with_registers(network: Any, registers: np.ndarray) -> Any:
    return dataclasses.replace(network, registers=registers)


def with_head(network: Any, **changes: object) -> Any:
    layer = network.layers[0]
    head = dataclasses.replace(layer.heads[0], **changes)
    return dataclasses.replace(network, layers=(dataclasses.replace(layer, heads=(head,)),))


NETWORKS: dict[str, Callable[[Any], Any]] = {
    "a value": lambda n: with_registers(n, nudged(n.registers, (8, 4), 1e-6)),
    "a key": lambda n: with_registers(n, nudged(n.registers, (8, 2), 1e-6)),
    "an offset": lambda n: with_registers(n, nudged(n.registers, (8, 3), 1e-6)),
    "the temperature": lambda n: with_head(n, beta=2 * next(n.heads).beta),
    "a temperature that rounds": lambda n: with_head(n, beta=1.1 * next(n.heads).beta),
    "the query's scale": lambda n: with_head(n, W_Q=nudged(next(n.heads).W_Q, (0, 0), 1.0)),
    "the query's shift": lambda n: with_head(n, W_Q=nudged(next(n.heads).W_Q, (1, 0), 1e-3)),
    "the query's constant": lambda n: with_head(n, W_Q=nudged(next(n.heads).W_Q, (1, 1), 1e-3)),
    "visible data keys": lambda n: with_head(n, W_K=nudged(next(n.heads).W_K, (1, 1), -next(n.heads).W_K[1, 1])),
    "keys that read the input": lambda n: with_head(n, W_K=nudged(next(n.heads).W_K, (0, 0), 1.0)),
    "values that read the input": lambda n: with_head(n, W_V=nudged(next(n.heads).W_V, (0, 0), 1.0)),
    "the output's scale": lambda n: with_head(n, W_O=nudged(next(n.heads).W_O, (0, 5), 1e-3)),
    "fewer registers seen": lambda n: with_head(
        n, sees=dataclasses.replace(next(n.heads).sees, registers=(1, len(n.registers)))
    ),
    "all tokens seen": lambda n: with_head(n, sees=dataclasses.replace(next(n.heads).sees, data="all")),
    "what is read": lambda n: dataclasses.replace(
        n, read=dataclasses.replace(n.read, C=nudged(n.read.C, (0, 0), 1e-3))
    ),
    "what is embedded": lambda n: dataclasses.replace(
        n, embed=dataclasses.replace(n.embed, C=nudged(n.embed.C, (0, 5), 1e-3))
    ),
    "a second layer": lambda n: dataclasses.replace(n, layers=n.layers * 2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_changed_weight_is_refused_even_with_fresh_digests(name: str, saved: Path) -> None:
    network, certificate = certified_file(saved)
    other = NETWORKS[name](network)
    write(saved, other, certificate)
    with pytest.raises(ww.CertificateError, match="another network"):
        ww.check(saved)
    save_forged(other, certificate, saved)
    with pytest.raises(ww.CertificateError):
        ww.check(saved)


def test_a_certificate_of_another_network_is_refused(saved: Path) -> None:
    network, _ = certified_file(saved)
    write(saved, network, ww.approximate("sin(5*x)", (-1, 1), 1e-6).certificate)
    with pytest.raises(ww.CertificateError, match="another network"):
        ww.check(saved)


def test_a_network_without_certificate_is_refused(saved: Path) -> None:
    network, _ = certified_file(saved)
    ww.AttentionNetwork(network).save(saved)
    with pytest.raises(ww.CertificateError, match="no certificate"):
        ww.check(saved)


@pytest.mark.parametrize("name", ["a value", "a key"])
def test_the_faithful_rule_refuses_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / "faithful.safetensors"
    ww.approximate("x", (-1, 1), 1e-1, method="faithful").save(path)
    assert ww.check(path).status == "PROVEN"
    network, certificate = certified_file(path)
    column = {"a value": 4, "a key": 2}[name]
    other = with_registers(network, nudged(network.registers, (8, column), 0.15))
    save_forged(other, certificate, path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)
    # the checker's rule for rounding is sharper than the prover's
    for term, factor in (("approximation", 0.5), ("leakage", 0.5), ("rounding", 1e-10)):
        save_forged(network, with_leaf(certificate, terms=scaled(certificate.claim.leaf.terms, term, factor)), path)
        with pytest.raises(ww.CertificateError, match=f"{term} on"):
            ww.check(path)


def test_a_false_slope_is_refused(tmp_path: Path) -> None:
    """Away from zero the query rounds, so the slope of the formula matters."""
    path = tmp_path / "net.safetensors"
    ww.approximate("sin(5*x)", (5, 7), 1e-8).save(path)
    network, certificate = certified_file(path)
    save_forged(network, with_leaf(certificate, lipschitz=1.0), path)
    with pytest.raises(ww.CertificateError, match="slope on"):
        ww.check(path)


def test_the_checker_needs_neither_prover_nor_heads(saved: Path) -> None:
    """In a process where importing them fails, and scipy and torch too, the check still runs."""
    program = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        banned = ("weightwright.prover", "weightwright.heads", "weightwright.compiler",
                  "weightwright.runtime", "torch", "scipy")
        if any(name == bad or name.startswith(bad + ".") for bad in banned):
            raise ImportError("banned: " + name)

sys.meta_path.insert(0, Refuse())
import weightwright as ww
print(ww.check({str(saved)!r}).status)
try:
    ww.approximate
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "PROVEN"
    assert done.stdout.splitlines()[1].startswith("banned: ")


def test_the_checker_leaves_the_callers_precision_alone(saved: Path) -> None:
    from flint import ctx

    before = (ctx.prec, ctx.cap)
    ww.check(saved)
    assert (ctx.prec, ctx.cap) == before
