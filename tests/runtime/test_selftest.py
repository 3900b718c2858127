"""The machine that runs the tests does what the rounding model says; where one does not, the self-test sees it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import weightwright as ww
from weightwright.checker.core import machine
from weightwright.prover import machine as provers
from weightwright.runtime import selftest as measuring


def test_this_machine_keeps_to_the_model() -> None:
    rows = ww.selftest(short=True)
    assert {(row.operation, row.dtype, row.kernel) for row in rows} == set(machine.TABLE)
    assert [row for row in rows if row.departs] == []


def test_both_copies_of_the_model_say_the_same() -> None:
    for (operation, dtype, kernel), row in machine.TABLE.items():
        units = {"exp": provers.EXP_UNITS[kernel][dtype], "division": provers.DIVISION_UNITS[kernel]}
        assert row.units == units.get(operation, 0 if operation == "copy" else provers.PRODUCT_UNITS)
        assert row.flushes == (operation == "matrix product" and provers.FLUSHED[dtype] > 0)
        assert machine.assumed(dtype, kernel) == provers.assumptions(dtype, kernel)


@pytest.mark.parametrize("name", ["units", "lost"])
@pytest.mark.parametrize("operation", ["sum", "product", "matrix product", "exp", "division"])
def test_a_machine_that_is_worse_departs(operation: str, name: str) -> None:
    row = next(row for row in ROWS if row.operation == operation and row.dtype == "float32")
    assert not row.departs
    assert dataclasses.replace(row, **{name: getattr(row.allowed, name) + 1.01}).departs


ROWS = [
    measuring.Measured(operation, dtype, kernel, row, 0.5, 0.0, False, 1)
    for (operation, dtype, kernel), row in machine.TABLE.items()
]


def test_flushing_subnormal_numbers_is_seen_and_refused() -> None:
    """What `set_flush_denormal` does to a whole program: the self-test sees it, and no certified network runs."""
    net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-3)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    try:
        departs = {(row.operation, row.dtype) for row in ww.selftest(short=True) if row.departs}
        with pytest.raises(ww.CertificateError, match="set_flush_denormal"):
            net(torch.zeros(3, 1, dtype=torch.float64))
    finally:
        torch.set_flush_denormal(False)
    assert ("matrix product", "float32") in departs
    net(torch.zeros(3, 1, dtype=torch.float64))


def test_sums_that_round_too_often_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that adds in bfloat16 where the dtype is float32."""

    def coarse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a + b).to(torch.bfloat16).to(a.dtype)

    monkeypatch.setattr(torch, "add", coarse)
    departs = {(row.operation, row.dtype) for row in ww.selftest(short=True) if row.departs}
    assert departs == {("sum", "float32"), ("sum", "float64")}
