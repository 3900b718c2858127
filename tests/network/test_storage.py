"""Every number comes back bit by bit, equal things are stored once, and nothing malformed is believed."""

from __future__ import annotations

import copy
import pickle
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from support.stored import plain, stored_and_read
from support.zoo import ZOO

import weightwright as ww
from weightwright.network import Head, Network, Term, field_types
from weightwright.network.frozen import Frozen, sparse
from weightwright.network.storage import LARGEST, NETWORK_TYPES, ArrayReader, ArrayWriter, decode, digest


@dataclass(frozen=True, eq=False)
class Numbers(Frozen):
    array: Any
    mask: Any = None
    rest: Any = ()


TYPES = {"Numbers": Numbers}
floats = st.one_of(st.just(0.0), st.sampled_from([-0.0, 5e-324, np.inf, -np.inf, np.nan]), st.floats())
shapes = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
many_zeros = st.one_of(st.just(0.0), st.just(0.0), st.just(0.0), floats)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | st.text(),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    """Down to the last bit, and the type."""
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    if isinstance(a, tuple):
        return type(b) is tuple and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return type(b) is float and a.hex() == b.hex()
    return type(a) is type(b) and a == b


@given(arrays_of.arrays(np.float64, shapes, elements=many_zeros), arrays_of.arrays(np.bool_, shapes), values)
def test_everything_comes_back(array: np.ndarray, mask: np.ndarray, rest: Any) -> None:
    stored = Numbers(array, mask, (rest, array, Numbers(array), mask))
    for again in (stored_and_read(stored, TYPES), pickle.loads(pickle.dumps(stored)), copy.deepcopy(stored)):
        assert same(again.array, stored.array)
        assert same(again.mask, stored.mask)
        assert same(again.rest[:2], stored.rest[:2])
        assert same(again.rest[2].array, stored.array)
        assert not again.array.flags.writeable


@given(arrays_of.arrays(np.float64, shapes, elements=many_zeros))
def test_a_sparse_array_is_smaller_and_the_same(array: np.ndarray) -> None:
    short = sparse(array)
    if short is None:
        assert 3 * np.count_nonzero(array.ravel().view(np.int64)) >= 2 * array.size
    else:
        assert short.numbers.nbytes + short.positions.nbytes < array.nbytes
        assert same(short.dense(), array)


@pytest.mark.parametrize("name", ZOO)
def test_every_network_comes_back(name: str) -> None:
    network = ZOO[name]()
    first, again = plain(network), plain(stored_and_read(network, NETWORK_TYPES))
    assert first[:2] == again[:2]
    assert all(first[2][pool].tobytes() == again[2][pool].tobytes() for pool in first[2])


def test_equal_arrays_are_stored_once() -> None:
    arrays = ArrayWriter()
    a, zeros = np.arange(1.0, 7.0), np.zeros((2, 3))
    assert arrays.put(a) == arrays.put(a.copy()) == 0
    assert arrays.put(a.reshape(2, 3)) == 1  # another shape
    assert arrays.put(zeros) == arrays.put(zeros.copy()) == 2
    assert arrays.put(-zeros) == 3  # another zero
    assert arrays.put(zeros.astype(bool)) == 4
    assert arrays.put(a[::-1]) == arrays.put(a[::-1].copy()) == 5
    assert arrays.rows[2:5] == [["sparse", 0, 2, 3], ["dense", 6, 2, 3], ["bools", 6, 2, 3]]
    assert {name: len(pool) for name, pool in arrays.pools().items()} == {"floats": 24, "positions": 0, "truths": 6}


def test_heads_that_share_their_keys_share_storage() -> None:
    rng = np.random.default_rng(0)
    shared = [rng.normal(size=(200, 2)) for _ in range(3)]

    def stored(heads: int) -> int:
        made = tuple(Head("the same", *shared, rng.normal(size=(2, 3))) for _ in range(heads))
        return sum(pool.nbytes for pool in plain(Numbers(np.zeros(0), rest=made))[2].values())

    assert stored(50) - stored(1) == 49 * 6 * 8


def test_equal_items_are_stored_once() -> None:
    same_terms = tuple(Term(np.ones((2, 2))) for _ in range(9))
    structure = plain(Numbers(np.zeros(0), rest=same_terms))[0]
    assert [structure["types"][row[0]][0] for row in structure["items"]] == ["Term", "Numbers"]


def test_zeros_take_no_bytes() -> None:
    array = np.zeros((300, 400))
    array[7, 9], array[8, 1] = -0.0, 1.5
    _, rows, pools = plain(Numbers(array))
    assert rows == [["sparse", 2, 300, 400]]
    assert pools["positions"].tolist() == [7 * 400 + 9, 8 * 400 + 1]
    assert [number.hex() for number in pools["floats"].tolist()] == ["-0x0.0p+0", "0x1.8000000000000p+0"]
    assert len(pickle.dumps(Numbers(array))) < 1000


def test_what_has_no_place_is_refused() -> None:
    for array in (np.arange(3), np.zeros(2, dtype=np.float32), np.array(["a"])):
        with pytest.raises(TypeError, match="only float64 and bool are stored"):
            ArrayWriter().put(array)


def test_other_contents_have_another_digest() -> None:
    array = np.arange(4.0)
    different = [
        Numbers(array), Numbers(array.reshape(2, 2)), Numbers(-array), Numbers(array, rest=(1,)),
        Numbers(array, rest=(1.0,)), Numbers(array, rest=(True,)), Numbers(array, rest=("1",)),
        Numbers(array, rest=((1,),)), Numbers(array, mask=array > 2), Numbers(np.zeros(4)), Numbers(-np.zeros(4)),
    ]  # fmt: skip
    digests = [digest([structure, rows], pools) for structure, rows, pools in map(plain, different)]
    assert len(set(digests)) == len(different)


# --- what is malformed ---

Rows, Pools = list[Any], dict[str, Any]
ROWS = [["dense", 2, 1, 2], ["sparse", 2, 5], ["bools", 3, 3]]


def pools() -> Pools:
    return {
        "floats": np.array([1.0, 2.0, 3.0, 4.0]),
        "positions": np.array([0, 4], dtype=np.int32),
        "truths": np.array([True, False, True]),
    }


def all_of(reader: ArrayReader) -> list[Any]:
    return [reader.get(number).tolist() for number in range(3)]


def test_rows_and_pools_that_fit_are_read() -> None:
    assert all_of(ArrayReader(ROWS, pools())) == [[[1.0, 2.0]], [3.0, 0.0, 0.0, 0.0, 4.0], [True, False, True]]


BAD_ROWS: dict[str, Rows | Any] = {
    "no list": None,
    "a number": 3,
    "text": "rows",
    "an empty row": [[]],
    "a kind alone": [["dense"], *ROWS[1:]],
    "another kind": [["full", 2, 1, 2], *ROWS[1:]],
    "a kind that is a list": [[[], 2, 1, 2], *ROWS[1:]],
    "a size that is no number": [["dense", 2, "1", 2], *ROWS[1:]],
    "a size that is true": [["dense", 2, True, 2], *ROWS[1:]],
    "a negative size": [["dense", 2, -1, -2], *ROWS[1:]],
    "half a number": [["dense", 2, 1, 2.0], *ROWS[1:]],
    "an enormous size": [["sparse", 2, 10**30], *ROWS[1:]],
    "fewer than the shape says": [["dense", 1, 1, 2], *ROWS[1:]],
    "more than the shape says": [["dense", 2, 1, 2], ["sparse", 2, 1], ROWS[2]],
    "a row less": ROWS[:2],
    "a row more": [*ROWS, ["dense", 1, 1]],
}
BAD_POOLS: dict[str, Callable[[Pools], Any]] = {
    "a pool of another name": lambda pools: pools.update(more=np.zeros(0)),
    "a pool of another dtype": lambda pools: pools.update(floats=np.zeros(4, dtype=np.float32)),
    "a pool of two dimensions": lambda pools: pools.update(floats=np.zeros((4, 1))),
    "too many numbers": lambda pools: pools.update(floats=np.zeros(5)),
    "too few numbers": lambda pools: pools.update(floats=np.zeros(3)),
    "no positions": lambda pools: pools.pop("positions"),
    "a position beyond the end": lambda pools: pools.update(positions=np.array([0, 5], dtype=np.int32)),
    "a position before the start": lambda pools: pools.update(positions=np.array([-1, 4], dtype=np.int32)),
    "one position twice": lambda pools: pools.update(positions=np.array([4, 4], dtype=np.int32)),
    "positions that fall": lambda pools: pools.update(positions=np.array([4, 0], dtype=np.int32)),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(ww.FileFormatError):
        all_of(ArrayReader(BAD_ROWS[name], pools()))


@pytest.mark.parametrize("name", BAD_POOLS)
def test_pools_that_do_not_fit_are_refused(name: str) -> None:
    altered = pools()
    BAD_POOLS[name](altered)
    with pytest.raises(ww.FileFormatError):
        all_of(ArrayReader(ROWS, altered))


def read_items(items: Any, types: Any = (("Numbers", "array", "rest"),), rows: Rows | None = None) -> Any:
    structure = {"types": [list(one) for one in types], "items": items}
    return decode(structure, ArrayReader(rows or [], {}), TYPES, Numbers)


def test_items_that_fit_are_read() -> None:
    found = read_items([[0, 1, [{"float": "inf"}]], [0, {"item": 0}, [2.5, None]]])
    assert (found.array.rest, found.rest) == ((np.inf,), (2.5, None))


@pytest.mark.parametrize(
    "items",
    [
        None, [], [[]], [3], [[0, 1]], [[0, 1, 2, 3]], [[1, 1, 2]], [[-1, 1, 2]], [[None, 1, 2]], [[True, 1, 2]],
        [[0, {"item": 0}, 2]], [[0, 1, 2], [0, {"item": 2}, 2], [0, {"item": 1}, 2]], [[0, 1, 2], [0, {"item": -1}, 2]],
        [[0, 1, 2], [0, {"item": False}, 2]],
        [[0, {"item": "0"}, 2]], [[0, {"array": 0}, 2]], [[0, {"array": -1}, 2]], [[0, {"array": True}, 2]],
        [[0, {"float": "1.0"}, 2]], [[0, {"float": 3}, 2]], [[0, {"float": []}, 2]], [[0, {}, 2]],
        [[0, {"item": 0, "array": 0}, 2]], [[0, {"other": 0}, 2]],
    ],
)  # fmt: skip
def test_items_that_do_not_fit_are_refused(items: Any) -> None:
    with pytest.raises(ww.FileFormatError):
        read_items(items)


@pytest.mark.parametrize(
    "types", [(), (("Network", "array", "rest"),), (("Numbers", "array", "other"),), ((),), ((0,),)]
)
def test_types_that_are_none_are_refused(types: Any) -> None:
    with pytest.raises(ww.FileFormatError):
        read_items([[0, 1, 2]], types)


def test_another_type_than_was_expected_is_refused() -> None:
    structure, rows, stored = plain(Term(np.eye(2)))
    with pytest.raises(ww.FileFormatError, match="is a Term, not a Network"):
        decode(structure, ArrayReader(rows, stored), NETWORK_TYPES, Network)


def test_a_small_file_stands_for_no_large_array() -> None:
    for row in (["sparse", 0, LARGEST + 1], ["sparse", 0, 2**20, 2**20], ["sparse", 0, *[2**10] * 40]):
        with pytest.raises(ww.FileFormatError):
            read_items([[0, {"array": 0}, 2]], rows=[row])


def test_what_is_shared_counts_as_often_as_it_is_used() -> None:
    half = ["sparse", 0, LARGEST // 2 - 1000]
    with pytest.raises(ww.FileFormatError, match="far more numbers"):
        read_items([[0, None, [{"array": 0}, {"array": 0}, {"array": 0}]]], rows=[half])


def test_shared_items_do_not_grow_without_bound() -> None:
    """Forty items, each twice the one before: a million million when nothing is shared."""
    doubled = [[0, None, []], *([0, {"item": k}, [{"item": k}]] for k in range(40))]
    with pytest.raises(ww.FileFormatError, match="far more numbers"):
        read_items(doubled)
    wide = [[0, None, [0] * 10**5], [0, None, [{"item": 0}] * 10**4]]
    with pytest.raises(ww.FileFormatError, match="far more numbers"):
        read_items(wide)


def test_a_long_chain_of_items_is_read() -> None:
    """Without recursion: what an item holds stands before it."""
    chain = [[0, None, []], *([0, {"item": k}, []] for k in range(10**4))]
    found, length = read_items(chain), 0
    while found.array is not None:
        found, length = found.array, length + 1
    assert length == 10**4


def test_arrays_are_known_by_their_annotation_in_every_numpy() -> None:
    """Newer versions give NDArray a name of its own; to older ones it is an alias of ndarray."""
    named = type("NDArray", (), {})
    for hint in (npt.NDArray[np.float64], types.GenericAlias(named, (np.float64,))):
        assert field_types._fits(np.zeros(2), hint)
        assert not field_types._fits(np.zeros(2, dtype=bool), hint)
        assert not field_types._fits([0.0], hint)
        assert field_types._in_words(hint) == "array of float64"
