"""A network of every kind: every layer, every way to see keys, the compiled form and the papers' literal form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from support.one_head import one_table

from weightwright.heads.registers import Table
from weightwright.network import (
    Attention,
    Block,
    FeedForward,
    Head,
    Linear,
    Loop,
    Mixed,
    Network,
    Sees,
    Softmax,
    Term,
    Total,
    selection,
    token_map,
    token_wise,
)

NAMES = ("x", "one", "y")
NONE = np.zeros((0, 3))


def compiled() -> Network:
    """One head on three registers whose keys are 1, 2, 4; native."""
    registers = np.array([[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [4.0, 1.0, 0.0]])
    head = Head(
        "square",
        W_Q=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
        W_K=np.array([[1.0, 0.0], [0.0, -0.5], [0.0, 0.0]]),
        W_V=np.array([[1.0], [0.0], [0.0]]),
        W_O=np.array([[0.0, 0.0, 1.0]]),
        beta=2.0,
        sees=Sees(registers=(0, 3), data="none"),
    )
    return Network(
        ("x",),
        token_wise(("x",), NAMES, {("x", "x"): 1.0}, {"one": 1.0}),
        registers,
        (Attention(NAMES, (head,)),),
        selection(NAMES, ("y",)),
    )


def random_head(rng: np.random.Generator, sees: Sees, out: int = 3, mask: np.ndarray | None = None) -> Head:
    W_Q, W_K = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    return Head("random", W_Q, W_K, rng.normal(size=(3, 2)), rng.normal(size=(2, out)), 1.5, sees, mask)


def attending(sees: Sees, registers: int = 0, tokens: int | None = 6, mask: np.ndarray | None = None) -> Network:
    rng = np.random.default_rng(1)
    return Network(
        ("a", "b"),
        Linear(NAMES, (Term(rng.normal(size=(2, 3))),), rng.normal(size=(1, 3))),
        rng.normal(size=(registers, 3)),
        (Attention(NAMES, (random_head(rng, sees, mask=mask), random_head(rng, sees))),),
        selection(NAMES, ("y", "x")),
        tokens=tokens,
    )


def literal() -> Network:
    """As the papers write it: tokens replicated, padded and scaled, attention without residual, tokens dropped."""
    rng = np.random.default_rng(2)
    replicate = np.concatenate([np.eye(3), np.zeros((2, 3))])
    embed = Linear(
        NAMES,
        (
            Term(rng.normal(size=(2, 3)), token_map(replicate), rng.normal(size=(3, 2))),
            Term(rng.normal(size=(2, 3)), Total(5), rng.normal(size=(3, 1))),
        ),
        rng.normal(size=(5, 3)),
    )
    attention = Attention(("u", "v"), (random_head(rng, Sees(), out=2),), residual=False)
    read = Linear(("v",), (Term(np.array([[0.0], [1.0]]), token_map(replicate.T)),), np.zeros((1, 1)))
    return Network(("a", "b"), embed, NONE, (attention,), read, tokens=3)


def feed_forward() -> Network:
    rng = np.random.default_rng(3)
    layer = FeedForward(
        NAMES, rng.normal(size=(3, 5)), rng.normal(size=(1, 5)), rng.normal(size=(5, 3)), rng.normal(size=(1, 3))
    )
    plain = FeedForward(("u",), layer.W_1, layer.b_1, rng.normal(size=(5, 1)), np.ones((1, 1)), residual=False)
    embed = Linear(NAMES, (Term(rng.normal(size=(2, 3))),), np.zeros((1, 3)))
    return Network(("a", "b"), embed, NONE, (layer, plain), selection(("u",), ("u",)))


def softmaxes() -> Network:
    rng = np.random.default_rng(4)
    embed = Linear(NAMES, (Term(rng.normal(size=(2, 3))),), np.zeros((1, 3)))
    layers = (Softmax(beta=2.0), Softmax(beta=3.0, over="tokens"))
    return Network(("a", "b"), embed, NONE, layers, selection(NAMES, NAMES), tokens=4)


def looped() -> Network:
    rng = np.random.default_rng(5)
    attention = Attention(NAMES, (random_head(rng, Sees(registers=(1, 3), data="earlier")),))
    shrink = Linear(NAMES, (Term(np.diag([0.5, 0.5, 0.5])),), np.zeros((1, 3)))
    embed = Linear(NAMES, (Term(rng.normal(size=(2, 3))),), np.zeros((1, 3)))
    loop = Loop((attention, Loop((shrink,), 2)), 3)
    return Network(("a", "b"), embed, rng.normal(size=(4, 3)), (loop,), selection(NAMES, ("y",)))


def in_blocks() -> Network:
    """Every token becomes three, of which the first asks its block; then one of every three is kept, and all add up."""
    rng = np.random.default_rng(7)
    none = np.zeros((1, 3))
    spread = Linear(NAMES, tuple(Term(rng.normal(size=(3, 3)), Block(rng.normal(size=(3, 1)))) for _ in "ab"), none)
    asked = Attention(NAMES, (random_head(rng, Sees(data="block", block=3, asks="first")),))
    gather = Linear(NAMES, (Term(np.eye(3), Block(rng.normal(size=(1, 3)))),), none)
    together = Linear(NAMES, (Term(np.eye(3)), Term(np.eye(3), Mixed(np.full((4, 4), 0.1)))), none)
    embed = Linear(NAMES, (Term(rng.normal(size=(2, 3))),), none)
    loop = Loop((spread, asked, gather, together), 2)
    return Network(("a", "b"), embed, NONE, (loop,), selection(NAMES, ("y",)), tokens=4)


def constant() -> Network:
    return Network(("a",), Linear(("c",), (), np.full((1, 1), 3.0)), np.zeros((0, 1)), (), selection(("c",), ("c",)))


def windowed() -> Network:
    """41 anchors on whole numbers, of which 17 are seen: the rest weighs less than 1e-15."""
    grid = np.arange(-20.0, 21.0)
    table = Table(2 * grid, -(grid**2), np.random.default_rng(6).normal(size=41), beta=0.5, window=8)
    return one_table(table, (0.0, 2.0), mean=0.5, role="windowed")


_MASK = np.tril(np.ones((6, 6), dtype=bool)) & ~np.eye(6, k=-2, dtype=bool)

ZOO: dict[str, Callable[[], Network]] = {
    "compiled": compiled,
    "literal": literal,
    "feed-forward": feed_forward,
    "softmaxes": softmaxes,
    "looped": looped,
    "in blocks": in_blocks,
    "constant": constant,
    "windowed": windowed,
    "sees all": lambda: attending(Sees(data="all")),
    "sees earlier": lambda: attending(Sees(data="earlier"), tokens=None),
    "sees itself": lambda: attending(Sees(registers=(0, 4), data="self"), registers=4, tokens=None),
    "sees its block": lambda: attending(Sees(data="block", block=3)),
    "sees its block and registers": lambda: attending(Sees(registers=(1, 3), data="block", block=2), registers=4),
    "sees a block that one asks": lambda: attending(Sees((1, 3), "block", 2, "first"), registers=4),
    "sees some registers": lambda: attending(Sees(registers=(1, 3), data="none"), registers=4, tokens=None),
    "sees everything": lambda: attending(Sees(registers=(0, 4), data="all"), registers=4),
    "masked": lambda: attending(Sees(data="all"), mask=_MASK),
    "masked, with registers": lambda: attending(Sees(registers=(0, 2), data="all"), registers=2, mask=_MASK),
}
