"""The laws of the intermediate form, what is native, and what things cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.zoo import NAMES, ZOO, attending, compiled, literal

import weightwright as ww
from weightwright.network import (
    Attention,
    Block,
    FeedForward,
    Linear,
    Loop,
    Network,
    Sees,
    Softmax,
    Term,
    Total,
    cost,
    selection,
)
from weightwright.numbers import rounded


def changed(array: np.ndarray, index: tuple[int, ...], value: float) -> np.ndarray:
    copy = np.array(array)
    copy[index] = value
    return copy


def first_head(network: Network) -> Any:
    return next(network.heads)


def with_head(network: Network, **changes: object) -> Network:
    layer = network.layers[0]
    assert isinstance(layer, Attention)
    heads = (dataclasses.replace(layer.heads[0], **changes), *layer.heads[1:])
    return dataclasses.replace(network, layers=(dataclasses.replace(layer, heads=heads), *network.layers[1:]))


def with_layers(network: Network, *layers: object) -> Network:
    return dataclasses.replace(network, layers=layers)


BROKEN: dict[str, tuple[Callable[[Network], Network], str]] = {
    "a weight that is NaN names its coordinate": (
        lambda n: with_head(n, W_K=changed(first_head(n).W_K, (1, 0), np.nan)),
        r"layer 0, head 0 \(square\), W_K: coordinate 'one', column 0 is .*nan",
    ),
    "an infinite output weight names its coordinate": (
        lambda n: with_head(n, W_O=changed(first_head(n).W_O, (0, 2), np.inf)),
        r"W_O: row 0, coordinate 'y' is .*inf",
    ),
    "a register that is not finite names its coordinate": (
        lambda n: dataclasses.replace(n, registers=changed(n.registers, (1, 1), np.inf)),
        r"registers: row 1, coordinate 'one'",
    ),
    "a weight that is no float32": (
        lambda n: dataclasses.replace(n, dtype="float32", registers=changed(n.registers, (0, 0), 0.1)),
        r"registers: row 0, coordinate 'x' is .*0.1.* no finite float32",
    ),
    "a query of the wrong size": (lambda n: with_head(n, W_Q=np.zeros((3, 5))), r"W_K: shape"),
    "a head for another stream": (lambda n: with_head(n, W_V=np.zeros((4, 1))), r"W_V: shape \(4, 1\)"),
    "a negative temperature": (lambda n: with_head(n, beta=-1.0), r"beta = -1.0"),
    "registers that are not there": (
        lambda n: with_head(n, sees=Sees(registers=(0, 99), data="none")),
        r"sees registers 0 to 99 of",
    ),
    "a head that sees nothing": (lambda n: with_head(n, sees=Sees(data="none")), "no key at all"),
    "blocks without a fixed number of tokens": (
        lambda n: with_head(n, sees=Sees(data="block", block=2)),
        "do not fall into blocks of 2",
    ),
    "a first token without blocks": (
        lambda n: with_head(n, sees=Sees(registers=(0, 3), data="none", asks="first")),
        "asks 'first', but only of a block",
    ),
    "a map on blocks without a fixed number of tokens": (
        lambda n: with_layers(n, Linear(NAMES, (Term(np.eye(3), Block(np.ones((2, 1)))),), np.zeros((1, 3)))),
        "None tokens do not fall into blocks of 1",
    ),
    "a matrix where a map is due": (
        lambda n: with_layers(n, Linear(NAMES, (Term(np.eye(3), np.eye(3)),), np.zeros((1, 3)))),
        "a ndarray is no map on the tokens",
    ),
    "a mask of the wrong shape": (
        lambda n: with_head(n, mask=np.ones((2, 2), dtype=bool), sees=Sees(data="all")),
        "a mask needs",
    ),
    "two coordinates of one name": (
        lambda n: dataclasses.replace(n, embed=dataclasses.replace(n.embed, coordinates=("x", "x", "y"))),
        "two coordinates are called 'x'",
    ),
    "a residual layer that renames": (
        lambda n: with_layers(n, dataclasses.replace(n.layers[0], coordinates=("x", "one", "z"))),
        r"residual layer keeps its coordinates, but \['y', 'z'\] changed",
    ),
    "a position code without a number of tokens": (
        lambda n: dataclasses.replace(n, embed=dataclasses.replace(n.embed, C=np.zeros((4, 3)))),
        "position code for 4 tokens|must say how many",
    ),
    "registers in other coordinates": (
        lambda n: with_layers(n, selection(("x", "one", "y"), ("x", "y", "one")), n.layers[0]),
        "registers stand in the coordinates of embed|residual",
    ),
    "a loop that changes the stream": (
        lambda n: with_layers(n, Loop((selection(("x", "one", "y"), ("x",)),), 2)),
        "a loop must end with",
    ),
    "a loop that never runs": (lambda n: with_layers(n, Loop((Softmax(),), 0)), "runs 0 times"),
    "an unknown dtype": (lambda n: dataclasses.replace(n, dtype="float8"), "dtype 'float8'"),
    "no token": (lambda n: dataclasses.replace(n, tokens=0), "at least one"),
    "a softmax at no temperature": (lambda n: with_layers(n, Softmax(beta=0.0)), "beta = 0.0"),
    "a feed-forward layer that does not fit": (
        lambda n: with_layers(
            n, FeedForward(("x", "one", "y"), np.zeros((3, 4)), np.zeros((1, 5)), np.zeros((4, 3)), np.zeros((1, 3)))
        ),
        r"b_1: shape \(1, 5\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_law_is_named(name: str) -> None:
    change, reason = BROKEN[name]
    with pytest.raises(ww.LawError, match=reason):
        change(compiled())


def test_terms_of_a_linear_map_must_agree_on_the_tokens() -> None:
    with pytest.raises(ww.LawError, match="do not add"):
        Network(
            ("x",),
            Linear(("x",), (Term(np.eye(1), Total(2)), Term(np.eye(1))), np.zeros((1, 1))),
            np.zeros((0, 1)),
            (),
            selection(("x",), ("x",)),
            tokens=3,
        )


def test_blocks_must_divide_the_tokens_and_the_terms_agree() -> None:
    def built(*terms: Term) -> Network:
        map = Linear(("x",), terms, np.zeros((1, 1)))
        return Network(("x",), map, np.zeros((0, 1)), (), selection(("x",), ("x",)), tokens=3)

    with pytest.raises(ww.LawError, match="3 tokens do not fall into blocks of 2"):
        built(Term(np.eye(1), Block(np.ones((1, 2)))))
    with pytest.raises(ww.LawError, match="its 9 tokens do not add to the other terms' 6"):
        built(Term(np.eye(1), Block(np.ones((2, 1)))), Term(np.eye(1), Block(np.ones((3, 1)))))


def test_one_query_a_block_costs_as_many_scores_as_there_are_tokens() -> None:
    def work(asks: str) -> int:
        network = attending(Sees(data="block", block=3, asks=asks))
        return 6 * cost(network).multiply_adds

    queries_and_outputs, scores_and_mixing = 3 * 2 + 2 * 3, 3 * (2 + 2)
    assert work("all") - work("first") == 2 * 4 * (queries_and_outputs + scores_and_mixing)  # two heads, four tokens


def test_weights_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="read-only"):
        compiled().registers[0, 0] = 1.0


def test_the_compiled_form_is_native_and_the_literal_one_says_why_not() -> None:
    assert compiled().native
    assert compiled().obstacles == ()
    assert set(literal().obstacles) == {
        "embed has a map on the token axis",
        "embed scales positions",
        "read has a map on the token axis",
        "layer 0 is not residual",
    }


def test_reading_from_registers_what_was_written_is_not_native() -> None:
    network = compiled()
    twice = dataclasses.replace(network, layers=network.layers * 2)
    assert twice.native
    head = dataclasses.replace(first_head(network), W_V=np.array([[0.0], [0.0], [1.0]]))
    second = Attention(("x", "one", "y"), (head,))
    assert dataclasses.replace(network, layers=(*network.layers, second)).obstacles == (
        "layer 1 reads 'y' from registers, which was written before",
    )
    assert dataclasses.replace(network, layers=(second,)).native
    assert dataclasses.replace(network, layers=(Loop((second,), 3),)).obstacles == (
        "layer 0.0 reads 'y' from registers, which was written before",
    )


def test_cost_counts_what_is_stored_and_computed() -> None:
    """Three coordinates, one head of size 2 on 3 registers, one input, one output."""
    found = cost(compiled())
    embed, registers, read = 3 + 3, 9, 3 + 1
    head = 3 * 2 + 3 * 2 + 3 * 1 + 1 * 3
    assert found.parameters == embed + registers + head + read
    assert found.bytes == 8 * found.parameters
    assert (found.layers, found.heads, found.anchors) == (1, 1, 3)
    # embed, query, three scores and values, output, read
    assert found.multiply_adds == 3 + 6 + 3 * (2 + 1) + 3 + 3
    assert found.largest_weight == 4.0
    assert found.nonzeros < found.parameters


def test_cost_of_loops_and_of_heads_that_see_data() -> None:
    network = compiled()
    looped = dataclasses.replace(network, layers=(Loop(network.layers, 5),))
    assert cost(looped).layers == 5
    assert cost(looped).parameters == cost(network).parameters
    assert cost(looped).multiply_adds - cost(network).multiply_adds == 4 * (6 + 9 + 3)
    everything = with_head(network, sees=Sees(registers=(0, 3), data="all"))
    assert cost(everything, tokens=10).multiply_adds - cost(network).multiply_adds == (6 + 3) + 10 * (2 + 1)


@pytest.mark.parametrize("name", ZOO)
def test_every_network_of_the_zoo_is_counted(name: str) -> None:
    assert cost(ZOO[name]()).multiply_adds > 0


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_rounding_to_bfloat16_is_torchs(x: float) -> None:
    expected = torch.tensor(x, dtype=torch.float32).to(torch.bfloat16).double().item()
    assert float(rounded(np.array(x), "bfloat16")) == expected


def test_a_loop_that_nobody_can_wait_for_is_refused() -> None:
    one = Linear(("x",), (Term(np.eye(1)),), np.zeros((1, 1)))
    with pytest.raises(ww.LawError, match="runs 10000000000 times"):
        Network(("x",), one, np.zeros((0, 1)), (Loop((one,), 10**10),), one)
