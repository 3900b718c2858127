"""How often one call does the same work again: a network encoded, hashed and walked, a table read and examined.

python benchmarks/repetition.py                   a table of typical calls, then totals over all `network_cases`
python benchmarks/repetition.py --calls           the typical calls alone
python benchmarks/repetition.py --only "MLP*"     totals over the cases whose names are of this form alone

Functions are replaced by ones that count, wherever a module of the package holds them (`WATCHED`); one that is gone from
its place is an error, so that a change of the package must say here what does its work now. Every typical call has
everything made anew: nothing is kept on disk, and the process is a new one. The columns:

encoded     networks and certificates that are turned into plain data, for a digest or for a file
hashed      digests of a network
files       digests of a file's contents, written and read
decoded     networks and certificates that are made from plain data
laws        networks whose laws are checked, which building one does
read back   networks that are read back from the weights of a module
walked      times that the checker goes through a network's layers, or writes the network down from a claim to compare
read        tables that the checker reads off a network; `of` how many different ones; `most` of one of them
examined    tables that the checker proves on boxes, and again `of` and `most`
proven      tables that the prover proves
parsed      formulas that are parsed

The same table is one with the same numbers, whichever heads it is read off. A walk of a prompt reads its tables as it
compares; tables of an interpreter stand in its claim, and count as read where the checker makes heads of them.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network_cases import CASES, Case, Made, make_mlp
from walks import import_all

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.network import Network

#: What a watched function is given: (arguments, result). What it returns are the tables that are read or examined, each
#: as the text of its numbers; other functions count once a call.
Tables = Callable[[tuple[Any, ...], Any], Iterator[str]]


def numbers_of_head(head: Any) -> str:
    """A table as the checker has read it: its scores and values, beta multiplied in."""
    return digest_of(head.slopes, head.offsets, head.values)


def digest_of(*numbers: Any) -> str:
    found = hashlib.sha256()
    for part in numbers:
        found.update(np.array([float(x) for x in part]).tobytes() + b";")
    return found.hexdigest()


def tables_of_layer(layer: Any) -> Iterator[str]:
    """Of what the checker calls a stored layer: one of its heads, several, or a table of a prompt."""
    if hasattr(layer, "stored"):
        yield from tables_of_layer(layer.stored)
    elif hasattr(layer, "plain"):
        yield digest_of(*layer.slopes, layer.plain.offsets, layer.plain.values)
    elif hasattr(layer, "kappa"):
        yield digest_of(layer.kappa, layer.lam, layer.c, layer.v)
    else:
        yield from map(numbers_of_head, layer.heads)


def read_tables(_: tuple[Any, ...], result: Any) -> Iterator[str]:
    return tables_of_layer(result)


def read_heads(_: tuple[Any, ...], result: Any) -> Iterator[str]:
    return map(numbers_of_head, result)


def examined_layer(arguments: tuple[Any, ...], _: Any) -> Iterator[str]:
    return tables_of_layer(arguments[0])


def examined_summand(arguments: tuple[Any, ...], _: Any) -> Iterator[str]:
    for table in arguments[0].tables:
        yield from tables_of_layer(table)


def is_whole(arguments: tuple[Any, ...], _: Any) -> bool:
    """Whether what is encoded is a network or a certificate."""
    return isinstance(arguments[0], Network | Certificate)
