"""Every map on the token axis against its matrix: recognised, applied, counted, and refused where it does not fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.running import reference_outputs
from support.stored import stored_and_read

import weightwright as ww
from weightwright.claims.files import encode_file
from weightwright.network import Block, Gather, Linear, Loop, Mixed, Network, Term, Total, cost, selection
from weightwright.network.token_maps import copy, pick, place, token_map, total

N = 6
MAPS: dict[str, Any] = {
    "pick": pick(4),
    "place": place(2, 5),
    "copy": copy(3),
    "neighbours": Gather((1, 2, 3)),
    "nothing, then neighbours": Gather((-1, 0, 1, 2)),
    "nothing at all": Gather((-1,)),
    "out of order": Gather((5, -1, 0, 0, 3)),
    "total": total(N, 4),
    "one total": total(N, 1),
    "repeated in blocks": Block(np.array([[1.0], [-0.5]])),
    "blocks": Block(np.arange(6.0).reshape(2, 3)),
    "mixed": Mixed(np.linspace(-1, 1, 5 * N).reshape(5, N)),
}
small = st.integers(1, 5)


def moving(map: Any, *, where: str = "layers", scaled: bool = False, dtype: str = "float64") -> Network:
    """The map between two plain ones, or in the place of one."""
    S = np.arange(1.0, N + 1)[:, None] if scaled else None
    moved = Linear(("x", "y"), (Term(np.array([[1.0, 0.5], [0.0, 2.0]]), map, S),), np.array([[0.0, 1.0]]))
    plain = selection(("x", "y"), ("x", "y"))
    parts = {"embed": plain, "read": plain} | ({} if where == "layers" else {where: moved})
    return Network(
        ("x", "y"),
        registers=np.zeros((0, 2)),
        layers=(moved,) if where == "layers" else (),
        tokens=N,
        dtype=dtype,
        **parts,
    )


def written_out(network: Network) -> Network:
    """The same with matrices."""

    def matrices(linear: Linear, n: int = N) -> Linear:
        terms = (
            dataclasses.replace(term, tokens=None if term.tokens is None else Mixed(term.tokens.matrix(n)))
            for term in linear.terms
        )
        return dataclasses.replace(linear, terms=tuple(terms))

    layers = tuple(matrices(layer) for layer in network.layers)
    return dataclasses.replace(network, embed=matrices(network.embed), layers=layers, read=matrices(network.read))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("where", ["embed", "layers", "read"])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_map_does_what_its_matrix_does(name: str, where: str, scaled: bool) -> None:
    X = np.random.default_rng(0).normal(size=(3, N, 2))
    network = moving(MAPS[name], where=where, scaled=scaled)
    expected = reference_outputs(written_out(network), X)
    assert np.allclose(reference_outputs(network, X), expected, rtol=1e-15, atol=1e-15)
    y = ww.AttentionNetwork(network)(torch.tensor(X)).numpy()
    assert y.shape == expected.shape == (3, MAPS[name].tokens_after(N), 2)
    assert np.allclose(y, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, map in MAPS.items() if isinstance(map, Gather)])
def test_what_is_gathered_is_the_number_itself(name: str) -> None:
    """A product with a matrix would add nothings to it: of infinities they make no number."""
    X = np.random.default_rng(0).normal(size=(N, 2))
    y = ww.AttentionNetwork(moving(MAPS[name]))(torch.tensor(X)).numpy()
    rows = X @ [[1.0, 0.5], [0.0, 2.0]]
    taken = [rows[source] if source >= 0 else np.zeros(2) for source in MAPS[name].sources]
    assert (y == np.array(taken) + np.array([0.0, 1.0])).all()


def test_a_gradient_goes_through_every_map() -> None:
    for map in MAPS.values():
        X = torch.randn(N, 2, dtype=torch.float64, requires_grad=True)
        ww.AttentionNetwork(moving(map))(X).sum().backward()
        expected = (map.matrix(N).T.sum(axis=1)[:, None] * np.array([[1.5, 2.0]])).astype(np.float64)
        assert np.allclose(X.grad.numpy(), expected)


@pytest.mark.parametrize("name", MAPS)
def test_a_map_costs_what_its_matrix_does(name: str) -> None:
    if isinstance(MAPS[name], Block):
        size = MAPS[name].R.size
        n = N // MAPS[name].R.shape[1]
        own = cost(moving(MAPS[name]))
        none = cost(moving(total(N, 1)))
        assert own.parameters - none.parameters == size - N
        assert (MAPS[name].counts(N).multiply_adds, MAPS[name].counts(N).parameters) == (n * size, size)
    else:
        assert cost(moving(MAPS[name])) == cost(written_out(moving(MAPS[name])))


def test_a_map_in_a_loop_counts_once_and_runs_often() -> None:
    once, often = (cost(loop_of(times)) for times in (1, 5))
    assert once.parameters == often.parameters
    assert often.multiply_adds > 4 * once.multiply_adds / 2


def loop_of(times: int) -> Network:
    layer = Linear(("x",), (Term(np.eye(1), copy(N)),), np.zeros((1, 1)))
    plain = selection(("x",), ("x",))
    return Network(("x",), plain, np.zeros((0, 1)), (Loop((layer,), times),), plain, tokens=N)


@given(small, small, st.data())
def test_a_gather_is_recognised(after: int, before: int, data: st.DataObject) -> None:
    sources = data.draw(st.lists(st.integers(-1, before - 1), min_size=after, max_size=after).map(tuple))
    assert token_map(Gather(sources).matrix(before)) == Gather(sources)


@given(small, small)
def test_sums_and_copies_have_one_form(after: int, before: int) -> None:
    assert token_map(np.ones((after, before))) == total(before, after)
    assert isinstance(total(before, after), Gather) == (before == 1)
    assert token_map(copy(after).matrix(before)) == copy(after)


@given(small, small, st.data())
def test_every_matrix_is_kept(after: int, before: int, data: st.DataObject) -> None:
    numbers = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, -1.0, 0.5])
    entries = data.draw(st.lists(numbers, min_size=after * before, max_size=after * before))
    R = np.array(entries).reshape(after, before)
    assert np.array_equal(token_map(R).matrix(before), R)


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_stored(name: str) -> None:
    network = moving(MAPS[name])
    again = stored_and_read(network)
    (layer,) = again.layers
    assert type(layer.terms[0].tokens) is type(MAPS[name])
    assert np.array_equal(layer.terms[0].tokens.matrix(N), MAPS[name].matrix(N))
    assert ww.AttentionNetwork(again).digest() == ww.AttentionNetwork(network).digest()


def test_maps_of_many_tokens_take_few_bytes() -> None:
    def summed(n: int) -> Network:
        plain = selection(("x",), ("x",))
        layer = Linear(("x",), (Term(np.eye(1), total(n, n)), Term(np.eye(1), copy(n))), np.zeros((1, 1)))
        return Network(("x",), plain, np.zeros((0, 1)), (layer,), plain, tokens=n)

    assert len(encode_file(summed(20_000), None)) < 50_000
    assert cost(summed(20_000)).parameters > 20_000**2


BROKEN = {
    "a token beyond the last": (Gather((0, N)), f"token {N} of {N}"),
    "a token before nothing": (Gather((0, -2)), "token -2 of"),
    "no token": (Gather(()), "nothing of"),
    "a truth value": (Gather((True,)), "token True of"),
    "a number that is no whole one": (Gather((0.0,)), r"token 0\.0 of"),
    "a sum for nobody": (Total(0), "becomes 0 tokens"),
    "a sum for true": (Total(True), "becomes True tokens"),
    "a sum for half a token": (Total(1.5), r"becomes 1\.5 tokens"),
    "a sum for more than there can be": (Total(2**40), "becomes 1099511627776 tokens"),
    "blocks that do not fit": (Block(np.ones((1, 4))), "6 tokens do not fall into blocks of 4"),
    "blocks of nothing": (Block(np.ones((1, 0))), "do not fall into blocks of 0"),
    "a block that is no matrix": (Block(np.ones(3)), r"R: shape \(3,\)"),
    "a matrix for other tokens": (Mixed(np.ones((2, 5))), r"R: shape \(2, 5\) where \(None, 6\)"),
    "infinity": (Mixed(np.full((1, N), np.inf)), "no finite float64"),
    "no map": ("everyone", "a str is no map on the tokens"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("where", ["embed", "layers", "read"])
def test_a_map_that_does_not_fit_is_named(name: str, where: str) -> None:
    map, reason = BROKEN[name]
    with pytest.raises(ww.LawError, match=reason):
        moving(map, where=where)


def test_numbers_of_a_map_are_of_the_dtype() -> None:
    moving(Mixed(np.full((1, N), 0.5)), dtype="float32")
    for map in (Mixed(np.full((1, N), 0.1)), Block(np.full((1, 2), 0.1))):
        with pytest.raises(ww.LawError, match="no finite float32"):
            moving(map, dtype="float32")


def test_a_long_map_is_told_in_few_words() -> None:
    assert repr(copy(1000)) == "Gather(sources=1000 of them)"
    assert repr(Term(np.eye(2), pick(1))) == "Term(A=array of 2 x 2, tokens=Gather(sources=(1,)), S=None)"
