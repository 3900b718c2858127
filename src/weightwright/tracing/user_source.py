"""Where in the user's source an operation stands, and errors that say so."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import torch
from torch import nn

from weightwright.errors import UnsupportedOperation

F = TypeVar("F", bound=Callable[..., Any])

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parents[2])
_STANDARD = sysconfig.get_path("stdlib")
_INSTALLED = ("site-packages", "dist-packages")  # inside the standard library's folder, and still the user's
_LONGEST = 100  # characters of a source line that are shown
_boundaries: set[CodeType] = set()


def boundary(function: F) -> F:
    """Marks a function that calls the user's: frames outside it are none of the traced function's."""
    _boundaries.add(function.__code__)
    return function


#: Refusals of the call under way.
_refusals: ContextVar[list[UnsupportedOperation]] = ContextVar("refusals")


def refuse(what: str, instead: str = "", torch_too: bool = False) -> UnsupportedOperation:
    """The error for an operation: what it is, the user's line, and what to write instead. torch_too: torch itself
    raises an error there, so that the user's function may catch it."""
    error = UnsupportedOperation(what + line() + (f"; {instead}" if instead else ""))
    if not torch_too:
        _refusals.get([]).append(error)
    return error


@contextmanager
def swallow_nothing() -> Iterator[None]:
    """A refusal that the user's own `except` has caught is raised afterwards: the function went another way."""
    refusals: list[UnsupportedOperation] = []
    token = _refusals.set(refusals)
    try:
        yield
    finally:
        _refusals.reset(token)
    if refusals:
        raise refusals[0]


def line() -> str:
    """' (file:line: text; module path)' of the user's innermost line under trace, as far as there is one."""
    parts, frame, path = [], _user_frame(), _module_path()
    if frame is not None:
        name = frame.f_code.co_filename
        text = linecache.getline(name, frame.f_lineno, frame.f_globals).strip()
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
        parts.append(f"{name}:{frame.f_lineno}" + (f": `{shown}`" if text else ""))
    if path:
        parts.append(f"in module {path}")
    return f" ({', '.join(parts)})" if parts else ""


def line_of(error: BaseException) -> str:
    """' (file:line: text)' of the user's innermost line that an error came through."""
    places = [place for place in traceback.extract_tb(error.__traceback__) if _is_users(place.filename)]
    return f" ({places[-1].filename}:{places[-1].lineno}: `{places[-1].line}`)" if places else ""


def short_place() -> str:
    """', file:line' for the label of a column; the path of the module where torch's own runs on that line."""
    frame = next((frame for frame in _frames() if _is_users(frame.f_code.co_filename) or _module_of(frame)), None)
    if frame is None:
        return ""
    if _is_users(frame.f_code.co_filename):
        return f", {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f", module {_module_path()}"


def _frames() -> Iterator[FrameType]:
    """From the innermost outwards, up to the call of the traced function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _boundaries:
        yield frame
        frame = frame.f_back


def _user_frame() -> FrameType | None:
    return next((frame for frame in _frames() if _is_users(frame.f_code.co_filename)), None)


@cache
def _is_users(filename: str) -> bool:
    if filename.startswith(("<frozen", "<string", _TORCH, _OURS)):
        return False
    return not filename.startswith(_STANDARD) or any(name in filename for name in _INSTALLED)


def _module_of(frame: FrameType) -> nn.Module | None:
    """The module whose forward this is."""
    code = frame.f_code
    module = frame.f_locals.get(code.co_varnames[0]) if code.co_name == "forward" and code.co_argcount else None
    return module if isinstance(module, nn.Module) else None


def _module_path() -> str:
    """The path of the innermost module whose forward runs, from the outermost; its class if that is the same."""
    modules = [module for frame in _frames() if (module := _module_of(frame)) is not None]
    if not modules:
        return ""
    names = {id(module): name for name, module in modules[-1].named_modules()}
    kind = type(modules[0]).__name__
    name = names.get(id(modules[0]), "")
    return f"{name} ({kind})" if name else kind
