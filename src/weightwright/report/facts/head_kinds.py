"""Heads in words: what a head looks at, and which heads of a layer are of one kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weightwright.network import Head

#: A number that tells one head from the next; not the digits of a name (x0, log2) nor an exponent.
_NUMBER = re.compile(r"(?<![A-Za-z_])(?<!\*\*)\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_OF = " of "


@dataclass(frozen=True)
class Kind:
    """Heads of one layer that compute the same of other numbers and look at as many keys."""

    heads: tuple[int, ...]  # their places in the layer
    roles: tuple[str, ...]
    keys: str

    @property
    def computes(self) -> str:
        """What they all compute; numbers in which they differ stand as dots."""
        whole = common(self.roles)
        return whole if whole is not None else common([_function(role) for role in self.roles]) or self.roles[0]

    @property
    def name(self) -> str:
        """The same without its argument: equal for equal work in different layers."""
        return pattern(_function(self.roles[0]))

    @property
    def arguments(self) -> tuple[str, ...]:
        """What each head computes it of, or the whole role where it does not say."""
        split = [role.split(_OF, 1) for role in self.roles]
        return tuple(parts[1] for parts in split) if all(len(parts) == 2 for parts in split) else self.roles


def kinds(heads: Sequence[tuple[str, str]]) -> list[Kind]:
    """The heads of a layer, each with its role and its keys in words, in groups, in the order of their first heads."""
    found: dict[tuple[str, str], list[int]] = {}
    for index, (role, keys) in enumerate(heads):
        found.setdefault((pattern(_function(role)), keys), []).append(index)
    return [Kind(tuple(members), tuple(heads[i][0] for i in members), keys) for (_, keys), members in found.items()]


def keys_in_words(head: Head) -> str:
    """How many keys there are, and which data tokens are among them."""
    count = head.sees.registers[1] - head.sees.registers[0]
    if head.window is not None:
        return f"{2 * head.window + 1:,} of {count:,} keys"
    registers = f"{count:,} key{'' if count == 1 else 's'}" if count else ""
    if head.mask is not None:
        data = "tokens by a mask"
    else:
        data = {
            "none": "",
            "self": "the token itself",
            "block": f"its block of {head.sees.block} tokens",
            "earlier": "earlier tokens",
            "all": "all tokens",
        }[head.sees.data]
    return " and ".join(word for word in (data, registers) if word) or "no keys"


def pattern(text: str) -> str:
    """The text with dots for its numbers."""
    return _NUMBER.sub("…", text)


def common(texts: Sequence[str]) -> str | None:
    """The text, with dots for the numbers in which they differ; None where more than numbers differs."""
    if len(set(texts)) == 1:
        return texts[0]
    if len({pattern(text) for text in texts}) > 1:
        return None
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    fixed = [column[0] if len(set(column)) == 1 else "…" for column in columns]
    numbers = iter(fixed)
    return _NUMBER.sub(lambda match: next(numbers), texts[0])


def few(names: Sequence[str], first: int = 2) -> str:
    """The names in a line; of many the first ones and the last."""
    between = "; " if any(", " in name for name in names) else ", "
    if len(names) <= first + 2:
        return between.join(names)
    return f"{between.join(names[:first])}{between}… {names[-1]}"


def shortened(name: str, most: int = 60) -> str:
    """The name, or its beginning and its end."""
    return name if len(name) <= most else f"{name[: 2 * most // 3]}…{name[len(name) - most // 3 + 1 :]}"


def _function(role: str) -> str:
    """What stands before the argument in "tanh(x) of hidden[3]"."""
    return role.split(_OF, 1)[0]
