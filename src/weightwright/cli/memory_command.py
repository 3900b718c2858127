"""`weightwright memorize`: a labelled corpus to a network that remembers it; and what such a network says of a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import weightwright as ww
from weightwright.cli.application import Json, check_outputs, progress_shown, show

#: Inconsistent items, and closest tokens, that are shown.
_SHOWN = 5


def memorize(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="A token a line, columns apart by tabs or spaces; CoNLL files.")
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the network: a .safetensors.")] = None,
    column: Annotated[int, typer.Option(metavar="N", help="Where the label stands, from 0; -1 is the last.")] = -1,
    positions: Annotated[bool, typer.Option(help="Whether a label may depend on the order of the sentence.")] = True,
    causal: Annotated[bool, typer.Option("--causal", help="A token sees itself and those before it.")] = False,
    kernel: Annotated[
        Literal["sorted", "plain"], typer.Option(help="Binary search among the kinks, or a sum over all units.")
    ] = "sorted",
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="What the network runs in.")] = "float64",
    megabytes: Annotated[float, typer.Option(help="Memory that may be taken, in MiB.")] = 8192.0,
    json: Json = False,
) -> None:
    """Build one rank-1 attention layer that returns the label of every token of a corpus, and prove that it does.

    Tokens whose labels contradict each other are left out and shown. `weightwright run` labels a file with the network.
    """
    check_outputs(out=out)
    with progress_shown("reading") as progress:
        from weightwright.memory.corpus import read_corpus

        start = time.perf_counter()
        sentences, labels = read_corpus(corpus, column)
        net = ww.memorize(
            sentences,
            labels,
            positions,
            mask="causal" if causal else None,
            on_conflict="skip",
            kernel=kernel,
            dtype=dtype,
            megabytes=megabytes,
            progress=progress,
        )
        took = time.perf_counter() - start
        progress("labelling the corpus with the network")
        right = _right(net.predict(sentences), labels)
        facts = _facts(net, sentences, right, took)
        if out is not None:
            net.save(out)
            facts["saved"] = str(out)
    show({"file": str(corpus), **facts}, json)


def _right(found: list[list[Any]], labels: list[list[str]]) -> int:
    return sum(a == b for one, two in zip(found, labels, strict=True) for a, b in zip(one, two, strict=True))


def _facts(net: Any, sentences: list[list[str]], right: int, took: float) -> dict[str, Any]:
    about, said = net.about, net.certificate
    pair = [f"{sentences[i][k]!r} (sentence {i}, position {k})" for i, k in about.closest or ()]
    return {
        "status": said.status,
        "claim": said.formula,
        "sentences": about.sequences,
        "tokens": about.tokens,
        "distinct_contexts": about.contexts,
        "vocabulary": about.vocabulary,
        "labels": about.labels,
        "inconsistent_items": len(about.conflicts),
        "examples_of_inconsistent_items": [str(one) for one in about.conflicts[:_SHOWN]],
        "closest_ids": about.separation,
        "between": " and ".join(pair),
        "error_of_an_id": about.id_error,
        "parameters": about.parameters,
        "parameters_allowed": about.formula,
        "numbers_stored": about.stored,
        "returned_correctly": right,
        "accuracy": right / about.tokens,
        "accuracy_where_consistent": right / max(about.remembered, 1),
        "seconds": took,
    }


def label_file(net: Any, values: list[str] | None, json: bool) -> None:
    """Print every token of a file, or of standard input, and its label, as the network returns it."""
    from weightwright.memory.corpus import read_sentences
    from weightwright.report.facts.fact_tables import to_json

    if values is not None and len(values) > 1:
        raise ValueError(f"a network that remembers a corpus labels one file at a time, and {len(values)} were given")
    read = Path(values[0]).read_bytes() if values else sys.stdin.buffer.read()
    text = read.decode("utf-8", errors="replace")
    sentences = read_sentences(text)
    known = set(map(type, net.said.claim.words))
    tokens = [[int(word) if known == {int} else word for word in one] for one in sentences]
    answers = net.predict(tokens)
    if json:
        rows = [
            [{"token": a, "label": None if _missing(b) else b} for a, b in zip(x, y, strict=True)]
            for x, y in zip(sentences, answers, strict=True)
        ]
        typer.echo(to_json({"status": net.certificate.status, "sentences": rows}))
        return
    both = zip(sentences, answers, strict=True)
    typer.echo("\n\n".join("\n".join(f"{a}\t{b}" for a, b in zip(x, y, strict=True)) for x, y in both))


def _missing(label: Any) -> bool:
    return label is ww.memory.NOT_STORED or label is ww.memory.INCONSISTENT
