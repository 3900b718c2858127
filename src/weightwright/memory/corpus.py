"""Labelled corpora in files: a token a line, columns apart by tabs or spaces, an empty line between sentences."""

from __future__ import annotations

import os
from pathlib import Path

from weightwright.errors import FileFormatError

#: Lines of CoNLL-2003 that are no tokens.
_DOCUMENT = "-DOCSTART-"


def read_corpus(
    path: str | os.PathLike[str], column: int = -1, word: int = 0
) -> tuple[list[list[str]], list[list[str]]]:
    """(sentences, labels) of a CoNLL-style or tab-separated file. FileFormatError names the line that is not so.

    column: where the label stands, counted from 0; -1 is the last. word: where the token stands. Lines that begin with
    -DOCSTART- and comments as in CoNLL-U (`# key = value`) count as empty.
    """
    sentences: list[list[str]] = [[]]
    labels: list[list[str]] = [[]]
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path}, line {number}: no UTF-8 text ({error.reason})") from error
        if text.startswith("# ") and " = " in text:
            continue
        if not text.strip() or text.startswith(_DOCUMENT):
            if sentences[-1]:
                sentences.append([])
                labels.append([])
            continue
        fields = text.split("\t") if "\t" in text else text.split()
        needed = max(word, column, 1 if column < 0 and word == 0 else 0)
        if len(fields) <= needed or not fields[word]:
            raise FileFormatError(
                f"{path}, line {number}: {text[:60]!r} has {len(fields)} columns, apart by tabs or spaces, and column"
                f" {needed} was asked for (counted from 0)"
            )
        sentences[-1].append(fields[word])
        labels[-1].append(fields[column])
    if not sentences[-1]:
        sentences.pop()
        labels.pop()
    if not sentences:
        raise FileFormatError(f"{path}: no token in it")
    return sentences, labels


def read_sentences(text: str) -> list[list[str]]:
    """The first column of such a file, whatever stands in the others."""
    sentences: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip() and not line.startswith(_DOCUMENT):
            sentences[-1].append((line.split("\t") if "\t" in line else line.split())[0])
        elif sentences[-1]:
            sentences.append([])
    return [one for one in sentences if one]
