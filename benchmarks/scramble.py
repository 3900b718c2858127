"""Every network of `network_cases` next to a twin whose names are random: nothing may be worked out from names.

python benchmarks/scramble.py                  all networks: what differs in each, and a table of aspects
python benchmarks/scramble.py --only "MLP*"    cases whose names are of this form
python benchmarks/scramble.py --seed 7         other random names

It ends with 1 if anything differs. In the twin every text of the network is a random token, equal texts being equal
tokens: names of coordinates and roles of heads, but not the few texts that choose what is computed (`CHOICES`). No
number is changed, and the certificate's digest of its network is made to fit. Then both are looked at as a user would
look at them, by `network_aspects`: check, load, run, states, search, messages about bad inputs, plans, circuit,
predicted effects, drawing, facts, `plot_heads`. A message may name a coordinate: before two answers are compared, the
tokens in the twin's are replaced by the names that they stand for. Where a check fails, the other aspects are looked at
with certificates that nobody has checked; where a file makes no module, without certificates.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from network_aspects import ASPECTS, NOTHING, Subject, as_plain, look_at
from network_cases import CASES, Case, Made, draw_inputs

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.claims.files import network_digest, write
from weightwright.network import Network
from weightwright.papers.checker.side_by_side import split
from weightwright.papers.claims.side_by_side_claim import SideBySideClaim
from weightwright.runtime.watch import flat, guard, guards_of

#: Fields whose text is no name: it chooses what is computed.
CHOICES = ("dtype", "data", "asks", "over")
#: Letters of a token. No digits and no brackets: nothing can be read from it.
LETTERS = 8
#: Characters of a difference that are printed.
WIDEST = 160


def draw_tokens(network: Network, seed: str) -> dict[str, str]:
    """A token for every name in the network."""
    rng, tokens = random.Random(seed), dict[str, str]()
    for name in dict.fromkeys(names_of(network)):
        token = ""
        while not token or token in tokens.values():
            token = "".join(rng.choices(string.ascii_lowercase, k=LETTERS))
        tokens[name] = token
    return tokens


def names_of(value: Any) -> Iterator[str]:
    """Every text in the network that is no choice and not empty."""
    if isinstance(value, str):
        yield from [value] if value else []
    elif isinstance(value, tuple):
        for one in value:
            yield from names_of(one)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in CHOICES:
                yield from names_of(getattr(value, field.name))


def rename(value: Any, tokens: Mapping[str, str], known: dict[int, Any]) -> Any:
    """The same with other names; what was one object is one. known: what was renamed already, by identity."""
    if isinstance(value, str):
        return tokens.get(value, value)
    if isinstance(value, tuple):
        return tuple(rename(one, tokens, known) for one in value)
    if not is_dataclass(value):
        return value
    if id(value) not in known:
        inside = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in CHOICES}
        known[id(value)] = replace(value, **{name: rename(one, tokens, known) for name, one in inside.items()})
    return known[id(value)]


def fit_certificate(said: Certificate | None, network: Network) -> Certificate | None:
    """The certificate about this network: other digests, and nothing else."""
    if said is None:
        return None
    claim = said.claim
    if isinstance(claim, SideBySideClaim):
        alone = [part for part, _ in split(network, said, claim)]
        own = [fit_certificate(part.certificate, one) for part, one in zip(claim.parts, alone, strict=True)]
        parts = (replace(part, certificate=one) for part, one in zip(claim.parts, own, strict=True))
        claim = replace(claim, parts=tuple(parts))
    return replace(said, claim=claim, network=network_digest(network))


@dataclass
class Twin:
    """A network as data, its certificate, and the file that holds both."""

    network: Network
    said: Certificate | None
    file: Path

    def load(self, verify: bool) -> ww.AttentionNetwork:
        return ww.load(self.file, verify=verify)


def make_twin(net: ww.AttentionNetwork, tokens: Mapping[str, str], file: Path) -> Twin:
    """Without tokens, the network as it is."""
    network = rename(net.network, tokens, {})
    said = fit_certificate(net.said, network)
    write(file, network, said)
    return Twin(network, said, file)


def stand_up(pair: tuple[Twin, Twin], original: ww.AttentionNetwork) -> list[ww.AttentionNetwork]:
    """Both as modules, in the best state that both can have, and with the guards of the original."""
    for verify in (True, False):
        with suppress(Exception):
            nets = [twin.load(verify) for twin in pair]
            break
    else:
        nets = [ww.AttentionNetwork(twin.network) for twin in pair]
    for net in nets:
        layers = (layer for layer, _ in flat(net.network.layers, net.layers))
        mine = zip(flat(original.network.layers, original.layers), layers, strict=True)
        own = {id(layer): other for (layer, _), other in mine}
        guard(net, [(own[id(layer)], one) for layer, one in guards_of(original)])
    return nets


def compare_case(case: Case, seed: str) -> dict[str, str] | None:
    """By aspect, the first difference, or "" where there is none; aspects with nothing to look at are left out. None
    where the case makes no network."""
    try:
        made = case.make()
    except (ww.WeightwrightError, ValueError):
        return None
    made = made if isinstance(made, Made) else Made(made)
    inputs = draw_inputs(made) if made.inputs is None and made.net.said is not None else made.inputs
    tokens = draw_tokens(made.net.network, seed)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name / "net.safetensors" for name in ("own", "random")]
        for file in files:
            file.parent.mkdir()
        pair = make_twin(made.net, {}, files[0]), make_twin(made.net, tokens, files[1])
        subjects = [
            Subject(net, twin.file, inputs, made.model)
            for net, twin in zip(stand_up(pair, made.net), pair, strict=True)
        ]
        return dict(compare_subjects(*subjects, named_again(tokens)))


def compare_subjects(own: Subject, random_names: Subject, put_names: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for aspect in ASPECTS:
        torch.manual_seed(0)
        one = look_at(aspect, own)
        torch.manual_seed(0)
        other = look_at(aspect, random_names)
        if not (isinstance(one, str) and one == NOTHING):
            yield aspect, first_difference(as_plain(one, _without_folder), as_plain(other, put_names))


def named_again(tokens: Mapping[str, str]) -> Callable[[str], str]:
    """What replaces the tokens of a text by their names."""
    names = {token: name for name, token in tokens.items()}
    pattern = re.compile("|".join(map(re.escape, names)))
    return lambda text: pattern.sub(lambda found: names[found[0]], _without_folder(text))


def _without_folder(text: str) -> str:
    """Messages name the file."""
    return re.sub(r"\S*/(own|random)/net\.safetensors", "net.safetensors", text)


def first_difference(one: Any, other: Any, place: str = "") -> str:
    """Where two answers differ first, and how; "" if nowhere.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]})
    'a, 1: 2 -> 3'
    """
    if is_array(one) and is_array(other):
        return "" if one == other else f"{place}: {in_short(one)} -> {in_short(other)}"
    if type(one) is type(other) and isinstance(one, dict) and list(one) == list(other):
        pairs = [(key, one[key], other[key]) for key in one]
    elif type(one) is type(other) and isinstance(one, list) and len(one) == len(other):
        pairs = [(str(key), *both) for key, both in enumerate(zip(one, other, strict=True))]
    elif type(one) is type(other) and one == other:
        return ""
    else:
        return f"{place or 'all of it'}: {in_short(one)} -> {in_short(other)}"
    found = (first_difference(a, b, f"{place}, {key}" if place else key) for key, a, b in pairs)
    return next(filter(None, found), "")


def is_array(value: Any) -> bool:
    """Whether it is what `as_plain` makes of an array."""
    return isinstance(value, dict) and "sha256" in value


def in_short(value: Any) -> str:
    """Of an error its type and message; of a list and a dict the number of members; of an array the first numbers."""
    if isinstance(value, list) and value and str(value[0]).startswith("raises "):
        return in_short(": ".join(value))
    if isinstance(value, list):
        return f"{len(value)} of them"
    if is_array(value):
        return f"array {value['sha256'][:8]} of {value['shape']}, {', '.join(value['shown'])}, ..."
    if isinstance(value, dict):
        return value.get("is", f"{len(value)} answers")
    text = str(value)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}..."


def print_summary(found: Mapping[str, Mapping[str, str]], refused: int, seconds: float) -> None:
    """The table of aspects, and one line."""
    looked = Counter(aspect for answers in found.values() for aspect in answers)
    differ = Counter(aspect for answers in found.values() for aspect, how in answers.items() if how)
    print("\n| aspect | networks | that differ |\n|---|---|---|")
    for aspect in ASPECTS:
        print(f"| {aspect} | {looked[aspect]} | {differ[aspect]} |")
    worse = sum(any(answers.values()) for answers in found.values())
    print(f"\n{worse} of {len(found)} networks differ; {refused} cases make no network; {seconds:.0f} s")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default="*", metavar="PATTERN", help="cases whose names are of this form")
    asked.add_argument("--seed", type=int, default=0, help="of the tokens")
    given = asked.parse_args()
    torch.set_num_threads(1)  # sums are taken in one order
    found, refused, start = dict[str, dict[str, str]](), 0, time.perf_counter()
    for name, case in CASES.items():
        if not fnmatch(name, given.only):
            continue
        answers = compare_case(case, f"{given.seed} {name}")
        if answers is None:
            refused += 1
            continue
        found[name] = answers
        wrong = {aspect: how for aspect, how in answers.items() if how}
        print(f"{case.group}: {name}: {f'{len(wrong)} aspects differ' if wrong else 'the same'}", flush=True)
        for aspect, how in wrong.items():
            print(f"    {aspect}: {how}")
    print_summary(found, refused, time.perf_counter() - start)
    return int(any(any(answers.values()) for answers in found.values()))


if __name__ == "__main__":
    sys.exit(main())
