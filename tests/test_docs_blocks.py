"""Every python block of the pages runs as printed: in the order of its page, in one namespace, in an empty folder.

`<!-- slow -->` on the line before a block leaves it to the slow suite; the blocks after it must do without it. A block
in `text` after it is what it prints."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(<!-- slow -->\n)?^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
PAGES = {
    path.relative_to(ROOT).as_posix(): [
        (bool(slow), code, said) for slow, code, said in _BLOCK.findall(path.read_text())
    ]
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
CASES = [
    pytest.param(name, slow, id=f"{name}{', slow' * slow}", marks=[pytest.mark.slow] * slow)
    for name, blocks in PAGES.items()
    for slow in sorted({block[0] for block in blocks})
]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch.compile's own
@pytest.mark.parametrize(("name", "slow"), CASES)
def test_the_blocks_of_a_page_run_as_printed(name: str, slow: bool, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for is_slow, code, said in PAGES[name]:
        if slow or not is_slow:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, f"<{name}>", "exec"), namespace)
            if said:
                assert printed.getvalue() == said, code
    for module in [
        name for name, one in sys.modules.items() if str(tmp_path) in (getattr(one, "__file__", None) or "")
    ]:
        del sys.modules[module]  # what was imported from the folder goes with it
