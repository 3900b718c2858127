"""What people type: domains and formulas as they come, and advice that names the options of the command line."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from typer.core import TyperCommand

#: One end of an interval, perhaps with a bracket or a comma of the interval.
_END = re.compile(r"[\[(]*[-+−]?(?=[\d.pe])(?:[\d.]+(?:[eE][-+]?\d+)?)?\*?(?:pi|e)?(?:/[\d.]+)?[\])]*[,;]?")
#: A value in a message: a text in quotes, a dtype of torch, a number with or without commas, a word.
_VALUE = r"(?:'(?P<text>[^']*)'|torch\.(?P<dtype>\w+)|(?P<number>\d{1,3}(?:,\d{3})+)|(?P<word>[^\s;,:)(']+))"


class Command(TyperCommand):
    """A command whose arguments may begin with a minus, as -x**2 and -0.5 do; the ends of its --domain, if it has one,
    may stand apart."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [param for param in self.params if param.opts[0].startswith("--")]
        takes_value = {param.opts[0]: not getattr(param, "is_flag", False) for param in options}
        return super().parse_args(ctx, _sort_out(args, takes_value))

    def get_params(self, ctx: Any) -> list[Any]:
        return show_flags(super().get_params(ctx))


def show_flags(params: list[Any]) -> list[Any]:
    """Help shows flags as flags: they take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None
    return params


def _sort_out(args: list[str], takes_value: dict[str, bool]) -> list[str]:
    """Options first, then `--` and the rest."""
    options: list[str] = []
    rest: list[str] = []
    waiting = list(reversed(args))
    while waiting:
        arg = waiting.pop()
        if arg == "--":
            rest += reversed(waiting)
            break
        if not arg.startswith("--"):
            rest.append(arg)
        elif arg == "--domain" and waiting:
            options.append(f"--domain={_take_domain(waiting)}")
        else:
            options.append(arg)
            if takes_value.get(arg, False) and waiting:
                options.append(waiting.pop())
    return [*options, "--", *rest]


def _take_domain(waiting: list[str]) -> str:
    """What stands behind --domain: one text, or end after end."""
    ends = [waiting.pop()]
    while _END.fullmatch(ends[0]) and waiting and _END.fullmatch(waiting[-1]):
        ends.append(waiting.pop())
    return " ".join(ends)


def read_ends(domain: str) -> tuple[list[str], list[str]]:
    """The ends as they were written, two for each variable: a Box rounds them outward."""
    plain = re.sub(r"\]\s*x\s*\[|[\[\]();,]", " ", domain)
    numbers = plain.split()
    if not numbers or len(numbers) % 2:
        raise ValueError(
            f"--domain takes two numbers for each variable, as in '-1 1', -pi,pi or '-1 1; 0 2', not {domain!r}"
        )
    return numbers[::2], numbers[1::2]


def name_options(message: str, names: dict[str, str]) -> str:
    """A message about arguments as one about options. names: of the arguments, with the options that they are."""
    if "domain" in names:
        message = re.sub(r"\bdomain=Box\(\[(.*?)\], \[(.*?)\]\)", _box_as_option, message)
    for name, option in names.items():
        message = message.replace(f"{name}= ({option})", option)
        message = re.sub(rf"(?<![\w-]){name}={_VALUE}", partial(_as_option, option), message)
        message = re.sub(rf"(?:(?<=^)|(?<=; )){name}(?=:| must )", option, message)
    return message


def _as_option(option: str, found: re.Match[str]) -> str:
    return f"{option} {(found['text'] or found['dtype'] or found['number'] or found['word'] or '').replace(',', '')}"


def _box_as_option(found: re.Match[str]) -> str:
    pairs = zip(found[1].split(", "), found[2].split(", "), strict=False)
    return f"--domain '{'; '.join(' '.join(pair) for pair in pairs)}'"
