"""`weightwright memorize` and `weightwright run` on a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import complaint, printed, printed_json, weightwright

CORPUS = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nGerman JJ B-MISC\ncall NN O\nEU NNP O\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.conll"
    path.write_text(CORPUS)
    return path


def test_a_corpus_is_remembered_and_a_file_labelled(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "memory.safetensors"
    facts = printed_json("memorize", corpus, "--column", "2", "--out", out)
    assert (facts["status"], facts["sentences"], facts["tokens"], facts["accuracy"]) == ("PROVEN", 2, 5, 1.0)
    assert facts["parameters"] <= facts["parameters_allowed"]
    text = tmp_path / "text.txt"
    text.write_text("EU\nrejects\n\nEU\ncall\n")
    assert printed("run", out, text) == "EU\tB-ORG\nrejects\tO\n\nEU\tnot stored\ncall\tnot stored\n"
    rows = json.loads(printed("run", out, "--json", stdin="EU\nrejects\n"))["sentences"]
    assert rows == [[{"token": "EU", "label": "B-ORG"}, {"token": "rejects", "label": "O"}]]
    assert "memory" in printed("check", out)


def test_another_column_and_tabs(corpus: Path, tmp_path: Path) -> None:
    assert printed_json("memorize", corpus, "--column", "1", "--causal")["labels"] == 4
    table = tmp_path / "table.tsv"
    table.write_text("New York\tPROPN\nis\tAUX\n\nNew York\tX\nis\tAUX\n")
    facts = printed_json("memorize", table)
    assert facts["inconsistent_items"] == 1
    (example,) = facts["examples_of_inconsistent_items"]
    assert "'New York' (sequence 0, position 0 and sequence 1, position 0)" in example
    assert facts["accuracy_where_consistent"] == 1


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b"a X\nb\n", "line 2: 'b' has 1 columns"),
        (b"a X\n\xff X\n", "line 2: no UTF-8 text"),
        (b"\n\n", "no token in it"),
    ],
)
def test_a_file_not_in_the_format_is_named_with_its_line(contents: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(contents)
    assert said in complaint(weightwright("memorize", path), 2)
