"""Pages with parts that a benchmark writes: their lines stand between two markers, the rest is written by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weightwright.output_files import whole


def written_into(page: str, letter: str, lines: list[str], source: str) -> str:
    """The page with these lines between the markers of the part."""
    start, end = f"<!-- {letter}: written by {source} -->\n", f"<!-- {letter}: end -->"
    if page.count(start) != 1 or page.count(end) != 1:
        raise ValueError(f"the page needs the lines {start.strip()!r} and {end!r} once each")
    before, rest = page.split(start)
    return before + start + "\n" + "\n".join(lines).strip() + "\n\n" + end + rest.split(end)[1]


def told(parts: dict[str, Callable[[], Any]], source: str, about: str, arguments: list[str] | None = None) -> None:
    """Print the parts, and write them into a page if asked for: the command line of a benchmark."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", choices=tuple(parts), help="one part")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the parts into this page as well")
    options = parser.parse_args(arguments)
    done: dict[str, list[str]] = {}
    for letter in [options.only] if options.only else parts:
        done[letter] = []
        print(f"({letter})")
        for line in parts[letter]():
            print(line, flush=True)
            done[letter].append(line)
    if options.write is not None:
        page = options.write.read_text()
        for letter, lines in done.items():
            page = written_into(page, letter, lines, source)
        with whole(options.write) as (partial,):
            partial.write_text(page)
