"""`weightwright compile`: a function or module from a Python file to a network.

The function or module that a user names on the command line: `path/file.py:name` or `package.module:name`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer

import weightwright as ww
from weightwright.cli.application import Draw, Json, check_outputs, print_table, progress_shown, show
from weightwright.cli.typed_arguments import read_ends


@dataclass(frozen=True)
class Loaded:
    """What is to be compiled, the file that it stands in, and what was called to get it ("" if nothing was)."""

    function: Callable[..., Any]
    file: str
    called: str = ""


def load_target(text: str) -> Loaded:
    """Import the file or the module and find the name in it.

    A class of torch modules, or a function without arguments, is called, and what it returns is the target.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(f"the target must be file.py:name or package.module:name, not {text!r}")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    found = _named(module, name, place)
    file = getattr(module, "__file__", None) or place
    if not callable(found):
        raise ValueError(f"{text} is a {type(found).__name__}, neither a function nor a torch module")
    if not _makes_one(found):
        return Loaded(found, file)
    with told_where(file):
        made = found()
    if not callable(made):
        raise ValueError(
            f"{text} takes no argument, so it was called; it returned a {type(made).__name__}, neither a function nor a"
            " torch module. What is compiled takes a tensor of shape (tokens, features)"
        )
    return Loaded(made, file, f"{name}()")


@contextmanager
def told_where(file: str) -> Iterator[None]:
    """Errors that come from the user's file become one line with the place in it; ours pass as they are."""
    try:
        yield
    except ww.WeightwrightError:
        raise
    except (Exception, SystemExit) as error:
        where = _place(error, file)
        if where is None:
            raise
        said = str(error) or "no message"
        raise ww.WeightwrightError(f"{where} raised {type(error).__name__}: {said}") from error


def _place(error: BaseException, file: str) -> str | None:
    """The innermost line of the file that the error passed through."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{error.filename}:{error.lineno}: `{(error.text or '').strip()}`"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, file)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else None


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _from_file(path: Path) -> ModuleType:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a Python file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"{path.stem} (compiled)"  # no name that an import could mean: a file may be called torch.py
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # as `python file.py` would have it
    sys.modules[name] = module
    with told_where(str(path)):
        spec.loader.exec_module(module)
    return module


def _from_module(name: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` would have it
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ww.WeightwrightError(f"importing {name}: {error}") from error
        raise ww.WeightwrightError(f"there is no module {name}; for a file write {name}.py:NAME") from None
    except ww.WeightwrightError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = _place(error, last.filename)
        raise ww.WeightwrightError(f"{where} raised {type(error).__name__}: {error}") from error


def _named(module: ModuleType, name: str, place: str) -> Any:
    found: Any = module
    so_far = place
    for part in name.split("."):
        if not hasattr(found, part):
            known = [known for known in dir(found) if not known.startswith("_")]
            close = difflib.get_close_matches(part, known, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(known[:12]) or 'no names'}"
            raise ValueError(f"{so_far} has no {part!r}; {hint}")
        found, so_far = getattr(found, part), f"{so_far}:{part}" if so_far == place else f"{so_far}.{part}"
    return found


def _makes_one(found: Any) -> bool:
    """Whether it has to be called: a class, or a function without arguments."""
    if inspect.isclass(found):
        return True
    from torch import nn

    if isinstance(found, nn.Module):
        return False
    try:
        return not inspect.signature(found).parameters
    except (TypeError, ValueError):  # some of torch's own have no signature
        return False


def compile(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME",
            help="The function or module, in a file or in a module (package.module:name); dots in the name go deeper."
            " A class of torch modules, or a function without arguments, is called to get it.",
        ),
    ],
    domain: Annotated[
        str,
        typer.Option(
            metavar="'LO HI'",
            help="Two numbers for each feature, as in '80 120; 0.1 2'; two alone stand for all features.",
        ),
    ],
    tol: Annotated[float, typer.Option(help="The error that the network may have, anywhere on the domain.")],
    tokens: Annotated[
        int | None, typer.Option(metavar="N", help="How many tokens there are; any number if each is by itself.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(metavar="N", help="Numbers per token, where --domain has one interval for all.")
    ] = None,
    dtype: Annotated[
        Literal["float64", "float32", "bfloat16"],
        typer.Option(metavar="DTYPE", help="What it runs in, and the bound covers: float64, float32 or bfloat16."),
    ] = "float64",
    proof: Annotated[
        Literal["proven", "measured"], typer.Option(help="Prove the bound, or only search for the largest error.")
    ] = "proven",
    kernel: Annotated[
        Literal["dot", "anchor"],
        typer.Option(help="Ordinary attention, or for one function of one number a window of nearby anchors."),
    ] = "dot",
    dead_zone: Annotated[
        float, typer.Option(metavar="D", help="For a function that jumps: claim nothing within D of a jump.")
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the network: a .safetensors.")] = None,
    draw: Draw = None,
    profile: Annotated[bool, typer.Option(help="Show where the seconds went, with the line of every stage.")] = False,
    json: Json = False,
) -> None:
    """Compile a PyTorch function or module to an attention-only network, and prove how well it computes it.

    It takes a tensor of shape (tokens, features). The file is run, as Python would run it.
    """
    check_outputs(out=out, draw=draw)
    lo, hi = read_ends(domain)
    box: Any = ww.Box(lo, hi) if len(lo) > 1 else (lo[0], hi[0])
    with progress_shown("starting") as progress:
        from weightwright import report
        from weightwright.runtime.module import DTYPES

        progress(f"loading {target}")
        loaded = load_target(target)
        start = time.perf_counter()
        with told_where(loaded.file):
            net = ww.compile(
                loaded.function,
                box,
                tol,
                dtype=DTYPES[dtype],
                kernel=kernel,
                tokens=tokens,
                features=features,
                proof=proof,
                dead_zone=dead_zone,
                progress=progress,
            )
        facts = _facts(net, loaded, target, tol, time.perf_counter() - start)
        if out is not None:
            net.save(out)
        if draw is not None:
            progress("drawing")
            report.draw_network(net, draw)
    facts |= {key: str(path) for key, path in (("saved", out), ("drawing", draw)) if path is not None}
    stages = [asdict(one) for one in getattr(net.about, "stages", ())]
    if profile and json:
        facts |= {"profile": stages}
    show(facts, json)
    if profile and not json:
        _show_stages(stages)


def _show_stages(stages: list[dict[str, Any]]) -> None:
    """Where the seconds went: each stage with its own time, and the line that begins it."""
    from rich.table import Table

    table = Table("seconds", "calls", "stage", "line", box=None, pad_edge=False)
    for one in stages:
        table.add_row(f"{one['seconds']:.3f}", str(one["calls"]), one["name"], one["place"])
    print_table(table)


def _facts(net: ww.AttentionNetwork, loaded: Loaded, target: str, tol: float, seconds: float) -> dict[str, Any]:
    from weightwright import report

    assert net.certificate is not None
    said = report.certificate_facts(net.certificate)
    called = {"called": loaded.called} if loaded.called else {}
    return {"target": target, **called, **report.compilation_facts(net, said, tol, seconds)}
