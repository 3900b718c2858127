"""What is claimed about networks that run a rule again and again in a loop, as data. Nothing is computed here."""

from __future__ import annotations

from dataclasses import dataclass

from weightwright.certificates.composites import Composite, in_words


@dataclass(frozen=True)
class OnePass:
    """The certificate's composite, whose target is a graph of columns, is about one pass of the network's loop.

    A token holds `features` numbers of an example, then the `states` numbers of the state, of which every token holds
    a copy. A pass turns the state into the graph's outputs on the first token; the examples stay as they are.
    """

    features: int
    states: int


def one_pass_in_words(composite: Composite) -> str:
    """What the bound is about, in one line."""
    return f"one pass of {in_words(composite)}"
