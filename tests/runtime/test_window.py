"""Windowed heads: the torch code against the interpreter, against ordinary attention, and against the laws."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.networks import attending, by_hand, linear
from support.one_head import one_table
from support.running import reference_outputs
from support.stored import stored_and_read
from support.zoo import windowed

import weightwright as ww
from weightwright.heads.registers import Table
from weightwright.network import Sees, Term
from weightwright.runtime.kernels.window_kernel import CHUNK, attend, decay

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8}


def table(p: int, M: int | None, c: float, dtype: str = "float64", first: int | None = None, seed: int = 0) -> Table:
    """Random values between -1 and 1 on p anchors."""
    grid = (-(p // 2) if first is None else first) + np.arange(p, dtype=np.float64)
    values = np.random.default_rng(seed).uniform(-1, 1, p)
    return Table(2 * grid, -(grid**2), values, c, window=M).rounded(dtype)


def inside(table: Table, n: int, dtype: str = "float64", seed: int = 1) -> np.ndarray:
    """n queries that have M anchors on both sides, (n, 1)."""
    M, grid = table.window or 1, table.keys / 2
    t = np.random.default_rng(seed).uniform(grid[M] - 0.5, grid[-1 - M] + 0.5, (n, 1))
    return np.clip(torch.tensor(t, dtype=DTYPES[dtype]).double().numpy(), grid[M] - 0.5, grid[-1 - M] + 0.5)


def exact_dense(table: Table, t: np.ndarray) -> np.ndarray:
    """Ordinary attention over all anchors, from squares: no large scores cancel."""
    scores = -table.beta * (t - table.keys / 2) ** 2
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights @ table.values / weights.sum(axis=-1))[..., None]


def tail(table: Table) -> float:
    """What the anchors outside the window can change: values lie in [-1, 1], cells are half a spacing wide."""
    M, c = table.window, table.beta
    beyond = sum(math.exp(-c * (m * m - m)) for m in range(M + 1, M + 60))  # |f| <= 1/2, relative to the nearest
    return 4 * beyond


def run(network: Any, t: np.ndarray) -> np.ndarray:
    x = torch.tensor(t, dtype=DTYPES[network.dtype])
    return ww.AttentionNetwork(network)(x).double().numpy()


# --- what it computes ---


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 0)])
@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_module_interpreter_and_ordinary_attention_agree(batch: tuple[int, ...], n: int, dtype: str) -> None:
    for p, M, c in ((3, 1, 1.0), (17, 5, 0.5), (40, 8, 0.25), (64, 3, 0.125)):
        head = table(p, M, c, dtype)
        t = inside(head, math.prod(batch) * n, dtype).reshape(*batch, n, 1)
        network = one_table(head, dtype=dtype)
        computed, reference = run(network, t), reference_outputs(network, t)
        assert computed.shape == reference.shape == (*batch, n, 1)
        slack = 40 * (M + 1) * UNIT[dtype]
        assert (np.abs(computed - reference) <= slack).all()
        assert (np.abs(reference - exact_dense(head, t)) <= tail(head) + 1e-13).all()


def test_the_window_is_what_is_left_out() -> None:
    """With a narrow window the difference is the tail: there, and not more."""
    head = table(40, 2, 0.25)
    t = inside(head, 2000)
    difference = np.abs(run(one_table(head), t) - exact_dense(head, t)).max()
    assert 1e-3 < difference <= tail(head)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_and_both_ends(dtype: str) -> None:
    """Half way between anchors either window will do; the ends of the grid have M anchors on one side only there."""
    head = table(21, 8, 1.0, dtype)
    t = np.arange(-2.5, 3.0, 0.5)[:, None]  # anchors -10 to 10: those from -2 to 2 have eight on each side
    network = one_table(head, dtype=dtype)
    assert np.abs(run(network, t) - reference_outputs(network, t)).max() <= 400 * UNIT[dtype]
    assert np.abs(reference_outputs(network, t) - exact_dense(head, t)).max() <= 1e-13


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_beyond_the_grid_count_as_the_last_inside(dtype: str) -> None:
    network = one_table(table(21, 3, 0.5, dtype, first=5), dtype=dtype)
    low, high = run(network, np.array([[7.5], [22.5]]))
    for far in (0.0, 5.0, -1e6, -1e30):
        assert run(network, np.array([[far]])) == low
        assert run(network, np.array([[-far + 30]])) == high
    assert np.abs(reference_outputs(network, np.array([[-1e30], [1e30]])) - [low, high]).max() <= 200 * UNIT[dtype]
    assert np.isnan(run(network, np.array([[math.nan]])))


def test_infinite_queries_and_nan() -> None:
    t = torch.tensor([-torch.inf, 7.5, torch.inf, 22.5, torch.nan], dtype=torch.float64)
    values = torch.tensor(table(21, 3, 0.5).values)[:, None]
    y = attend(t, values, decay(0.5, 3, torch.float64), 5.0, 0.5)[:, 0]
    assert torch.equal(y[[0, 2]], y[[1, 3]])
    assert y[4].isnan()


@pytest.mark.slow
def test_the_first_exp_of_a_process_is_one_threads() -> None:
    """Two threads that come first at the same time may get a kernel of 26 bits: so importing computes an exp."""
    program = """
import torch
exp, seen = torch.exp, []
torch.exp = lambda x: (seen.append((x.dtype, x.numel())), exp(x))[1]
import weightwright.runtime
print(sorted((str(dtype), n) for dtype, n in seen))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('torch.float32', 1), ('torch.float64', 1)]"


def test_several_values_at_once() -> None:
    """Two columns of values are two heads with one window."""
    first, second = table(30, 6, 0.5, seed=1), table(30, 6, 0.5, seed=2)
    t = torch.tensor(inside(first, 50))[:, 0]
    e = decay(0.5, 6, torch.float64)
    both = attend(t.reshape(5, 10), torch.tensor(np.stack([first.values, second.values], 1)), e, -15.0, 0.5)
    assert both.shape == (5, 10, 2)
    for column, head in enumerate((first, second)):
        np.testing.assert_array_equal(
            both[..., column].reshape(-1, 1).numpy(), run(one_table(head), t[:, None].numpy())
        )


def test_values_of_two_sizes_in_a_network() -> None:
    names = ("t", "one", "key", "offset", "u", "v")
    grid, rng = np.arange(-12.0, 13.0), np.random.default_rng(3)
    registers = np.stack([0 * grid, 0 * grid, 2 * grid, -(grid**2), *rng.uniform(-1, 1, (2, 25))], 1)
    W_Q, W_K, W_V = np.zeros((6, 2)), np.zeros((6, 2)), np.zeros((6, 2))
    W_Q[0, 0] = W_Q[1, 1] = W_K[2, 0] = W_K[3, 1] = W_V[4, 0] = W_V[5, 1] = 1.0
    W_O = rng.normal(size=(2, 6)) * [1, 0, 1, 1, 1, 1]
    layer = attending(names, W_Q, W_K, W_V, W_O, 0.5, (0, 25), "none", window=7)
    embed = linear(names, np.eye(1, 6), np.eye(1, 6, 1))
    network = by_hand(("t",), embed, (layer,), names, registers=registers)
    t = rng.uniform(-5, 5, (2, 9, 1))
    np.testing.assert_allclose(run(network, t), reference_outputs(network, t), rtol=1e-13, atol=1e-13)


def test_gradients_are_those_of_ordinary_attention() -> None:
    head = table(40, 9, 0.5)
    t = torch.tensor(inside(head, 200)).requires_grad_()
    dense = ww.AttentionNetwork(one_table(replace(head, window=None)))
    ours, theirs = (
        torch.autograd.grad(net(t).square().sum(), t)[0] for net in (ww.AttentionNetwork(one_table(head)), dense)
    )
    assert ours.abs().max() > 0.1
    assert (ours - theirs).abs().max() <= 1e-11
    with torch.no_grad():
        assert not ww.AttentionNetwork(one_table(head))(t).requires_grad


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [CHUNK - 1, 2 * CHUNK, 4 * CHUNK + 3])
def test_a_split_into_chunks_changes_nothing(n: int, threads: int) -> None:
    values = torch.randn(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    t = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 40 - 20
    t[7] = torch.nan
    e, before = decay(0.5, 6, torch.float64), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = attend(t, values, e, -15.0, 0.5)
        apart = torch.cat([attend(part, values, e, -15.0, 0.5) for part in t.split(5_000)])
    finally:
        torch.set_num_threads(before)
    assert together.isnan().sum() == 2
    assert torch.equal(together.nan_to_num(9.0), apart.nan_to_num(9.0))


# --- what it costs ---


def test_cost_counts_the_window() -> None:
    short, long = (ww.AttentionNetwork(one_table(table(p, 5, 0.5))).cost for p in (20, 200))
    assert short.multiply_adds == long.multiply_adds
    assert long.anchors == 200
    dense = ww.AttentionNetwork(one_table(table(20, None, 0.5))).cost
    assert dense.multiply_adds - short.multiply_adds == (20 - 11) * 3


def seconds(compute: Callable[[], object]) -> float:
    begin = time.perf_counter()
    compute()
    return time.perf_counter() - begin


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_thousand_anchors_are_at_least_five_times_faster(dtype: str) -> None:
    """On the same table; measured 70 times and more."""
    head = table(1024, 12 if dtype == "float64" else 6, 0.25 if dtype == "float64" else 0.5, dtype)
    short, dense = (ww.AttentionNetwork(one_table(it, dtype=dtype)) for it in (head, replace(head, window=None)))
    x = torch.tensor(inside(head, 50_000, dtype), dtype=DTYPES[dtype])
    with torch.no_grad():
        short(x)
        ratios = (seconds(lambda: dense(x)) / seconds(lambda: short(x)) for _ in range(3))
        assert any(ratio >= 5 for ratio in ratios)


PROGRAM = """
import torch, weightwright as ww
{build}
x = torch.linspace(-1, 1, 2_000_000)[:, None]
with torch.no_grad():
    y = net(x)
assert y.shape == x.shape and y.isfinite().all()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
NETS = {
    "windowed": """
import numpy as np
from weightwright.heads.registers import Design, Query, Table, assemble
L = np.arange(-520.0, 521.0)
net = ww.AttentionNetwork(assemble(
    Design((Table(2 * L, -L**2, np.cos(L), 0.5, window=6).rounded("float32"),), ("f",), 0.0), Query(0.0, 512.0), "f",
    "float32"))
""",
    "dense": 'net = ww.approximate("sin(20*x)", (-1, 1), 1e-3, dtype=torch.float32)',
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc: the peak would be the parent's too")
@pytest.mark.parametrize("kind", NETS)
def test_two_million_tokens_fit_in_a_gigabyte(kind: str) -> None:
    """The peak of the process itself: getrusage would count what its parent held when it was started."""
    program = PROGRAM.format(build=NETS[kind])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2**20  # kilobytes


# --- files ---


def test_the_window_is_part_of_the_network() -> None:
    again = stored_and_read(windowed())
    assert next(again.heads).window == next(windowed().heads).window
    (layer,) = again.layers
    without = replace(layer, heads=(replace(layer.heads[0], window=None), *layer.heads[1:]))
    assert ww.AttentionNetwork(replace(again, layers=(without,))).digest() != ww.AttentionNetwork(windowed()).digest()


# --- laws ---


def broken(**changes: object) -> Callable[[], Any]:
    """`windowed` with another head."""

    def build() -> Any:
        network = windowed()
        (layer,) = network.layers
        return replace(network, layers=(replace(layer, heads=(replace(layer.heads[0], **changes),)),))

    return build


def moved(row: int, column: int, value: float) -> Callable[[], Any]:
    """`windowed` with another entry in its registers."""

    def build() -> Any:
        registers = windowed().registers.copy()
        registers[row, column] = value
        return replace(windowed(), registers=registers)

    return build


def entries(name: str, *items: tuple[int, int, float]) -> dict[str, np.ndarray]:
    (head,) = windowed().heads
    array = getattr(head, name).copy()
    for row, column, value in items:
        array[row, column] = value
    return {name: array}


def no_longer_one(how: str) -> Callable[[], Any]:
    def build() -> Any:
        network = windowed()
        embed = network.embed
        if how == "constant":
            C = embed.C.copy()
            C[0, 1] = 2.0
            return replace(network, embed=replace(embed, C=C))
        A = embed.terms[0].A.copy()
        A[0, 1] = 1.0
        return replace(network, embed=replace(embed, terms=(Term(A),)))

    return build


LAWS = {
    "zero": (broken(window=0), "whole number of at least 1, not 0"),
    "true": (broken(window=True), "whole number of at least 1, not True"),
    "text": (broken(window="8"), "whole number of at least 1, not '8'"),
    "data": (broken(sees=Sees(registers=(0, 41), data="self")), "sees registers only, not data tokens .'self'"),
    "query": (broken(W_Q=np.zeros((6, 3)), W_K=np.zeros((6, 3))), "queries of size 2 and .* not 3 and 1"),
    "value": (broken(W_V=np.zeros((6, 0)), W_O=np.zeros((0, 6))), "values of size 1 or more, not 2 and 0"),
    "beta": (broken(beta=0.75), "beta = 0.75 .* power of two"),
    "few": (broken(window=21), "window of 21 needs 43 anchors, but there are 41"),
    "gap": (moved(7, 2, -26.5), "key of register 7 is -26.5, .* needs -26.0"),
    "half": (moved(0, 2, -41.0), "key of register 0 is -41.0"),
    "offset": (moved(9, 3, -120.0), "offset of register 9 is -120.0, .* needs -121.0"),
    "no one": (broken(**entries("W_Q", (1, 1, 0.0))), r"query is \(t, 1\), and one"),
    "two": (broken(**entries("W_Q", (1, 1, 2.0))), r"query is \(t, 1\), and one"),
    "constant": (no_longer_one("constant"), "coordinate 'data' gives the 1 .* not always 1"),
    "input": (no_longer_one("input"), "coordinate 'data' gives the 1 .* not always 1"),
    "written": (broken(**entries("W_O", (0, 1, 1.0))), "coordinate 'data' gives the 1 .* not always 1"),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws(name: str) -> None:
    build, reason = LAWS[name]
    with pytest.raises(ww.LawError, match=reason):
        build()


def test_offsets_are_rounded_to_the_dtype() -> None:
    assert one_table(table(62, 3, 0.5, "bfloat16"), dtype="bfloat16").registers[0, 3] == -960  # -961 in eight bits
    other = table(62, 3, 0.5, "bfloat16")
    offsets = other.offsets.copy()
    offsets[0] = -964.0
    with pytest.raises(ww.LawError, match=r"offset of register 0 is -964.0, .* needs -960.0"):
        one_table(replace(other, offsets=offsets), dtype="bfloat16")
