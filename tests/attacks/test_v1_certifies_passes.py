"""`net.certifies` where the bound is about one pass: errors of several passes add up to more than that bound."""

from __future__ import annotations

from typing import get_args

import numpy as np
import torch
from support.built import built_file
from support.kinds import CLAIMS

import weightwright as ww
from weightwright.claims.scope import Subject

PROGRAMS = 8


def test_a_prediction_of_eight_programs_is_not_certified() -> None:
    vm = ww.Interpreter.load(built_file("an interpreter of eight programs"))
    assert vm.certificate.subject == "pass"
    assert "of one pass" in repr(vm.certificate)
    grows = np.array([[0.5, -0.25], [-0.25, 0.5]])
    programs = [vm.program(np.zeros((1, 2)), np.zeros((1, 2)), grows)] * PROGRAMS
    prompt = vm.prompt(torch.tensor([[0.01, -0.01]], dtype=torch.float64), programs)
    y = vm.net(prompt)
    assert float((y[..., 0] - y[..., 1]).abs().min()) > 2 * vm.certificate.bound  # the lead is large for one pass
    assert not vm.net.certifies(prompt).any()


def test_one_program_is_about_its_output() -> None:
    vm = ww.Interpreter(tokens=1, features=2, head_dim=1, w_max=2.0, x_max=1.0)
    assert vm.certificate.subject == "output"


def test_every_claim_says_what_its_bound_is_about() -> None:
    for kind in CLAIMS:
        said = vars(kind).get("subject")
        assert isinstance(said, property) or said in get_args(Subject), kind


@ww.incontext.algorithm(steps=4)
def average(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    return state + 0.5 * (x.mean(dim=0) - state)


def test_a_rule_is_about_one_pass() -> None:
    net = average.run([[1.0], [2.0], [6.0]], [0.0]).net
    certificate = net.certificate
    assert (certificate.status, certificate.subject) == ("PROVEN", "pass")
    assert "after one pass" in repr(certificate)
    assert "after one pass" in repr(net)


def test_an_estimator_is_about_one_pass() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    certificate = ww.incontext.Lasso(alpha=0.01).fit(X, X @ [1.0, 2.0]).network_.certificate
    assert (certificate.status, certificate.subject) == ("PROVEN", "pass")
    assert "pass" in repr(certificate)
