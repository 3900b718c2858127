"""`weightwright interpreter`, `program` and `interpret`: one frozen module, programs for it, and runs."""

from __future__ import annotations

import inspect
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import weightwright as ww
from weightwright.claims.certificate import round_up
from weightwright.cli.application import Json, check_outputs, progress_shown, saved_file, show

if TYPE_CHECKING:
    from weightwright.interpreter import Program

Module = Annotated[Path, typer.Argument(metavar="MODULE", help="A saved interpreter (.safetensors).")]
#: Algorithms of the library that are one program; "head" takes W_Q, W_K and W_V.
NAMES = (
    "head", "average", "copy", "previous", "select", "nearest", "smooth", "route", "gradients", "update",
    "soft_threshold",
)  # fmt: skip


def interpreter(
    tokens: Annotated[int, typer.Option(help="Data tokens.")],
    features: Annotated[int, typer.Option(help="Numbers of a token.")],
    head_dim: Annotated[int, typer.Option(help="The largest size of queries and keys.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Save the module: a .safetensors.")],
    heads: Annotated[int, typer.Option(help="How many a program may have.")] = 1,
    rows: Annotated[int, typer.Option(help="Constant tokens that a program may bring along.")] = 0,
    x_max: Annotated[float, typer.Option(help="The largest entry of data and rows.")] = 1.0,
    w_max: Annotated[float, typer.Option(help="The largest entry of W_Q, W_K and W_V.")] = 2.0,
    k_max: Annotated[float, typer.Option(help="The largest entry of W_K x.")] = 4.0,
    q_max: Annotated[float, typer.Option(help="The largest entry of W_Q x.")] = 4.0,
    v_max: Annotated[float, typer.Option(help="The largest entry of W_V x.")] = 4.0,
    tol: Annotated[float | None, typer.Option(help="The error that any program may have; the best by default.")] = None,
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="What it runs in.")] = "float64",
    form: Annotated[
        Literal["embedding", "stacked"], typer.Option(help="All weights on one token, or a row of them on each.")
    ] = "embedding",
    json: Json = False,
) -> None:
    """Build a frozen module that runs any attention head from its prompt, and prove it for all programs at once."""
    check_outputs(out=out)
    with progress_shown("building and proving the module"):
        from weightwright import report

        vm = ww.Interpreter(
            tokens, features, head_dim, heads=heads, rows=rows, x_max=x_max, w_max=w_max, k_max=k_max, q_max=q_max,
            v_max=v_max, tol=tol, dtype=dtype, form=form,
        )  # fmt: skip
        vm.save(out)
    cost = vm.cost
    show(
        {
            "saved": str(out), **report.certificate_facts(vm.certificate), "fingerprint": vm.fingerprint,
            "prompt": list(cost.prompt), "heads": cost.heads, "anchors": cost.anchors, "parameters": cost.parameters,
        },
        json,
    )  # fmt: skip


def program(
    path: Module,
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"What it does: {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the program goes: a .npz or .json.")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME=VALUE", help="An argument of it: a number, a list, a text, or a .npy or .csv file."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write a program for a module: an algorithm of the library, or a head of your own.

    As in: weightwright program vm.safetensors smooth --with "f=sin(2*x)" --with rows=8 --out sine.npz
    """
    check_outputs(program=out)
    arguments = dict(_argument(text) for text in given or [])
    with progress_shown("checking the module"):
        from weightwright.interpreter import library
        from weightwright.interpreter.program_files import save_program
        from weightwright.report.facts.network_facts import subject_facts

        if name not in NAMES:
            raise ValueError(f"there is no program {name!r}; there are {', '.join(NAMES)}")
        vm = ww.Interpreter.load(saved_file(path))
        make = vm.program if name == "head" else getattr(library, name)
        known = [known for known in inspect.signature(make).parameters if known != "vm"]
        for one in arguments:
            if one not in known:
                raise ValueError(f"--with {one}: {name} takes {', '.join(known)}")
        made: Program = make(**arguments) if name == "head" else make(vm, **arguments)
        save_program(made, out)
    facts: dict[str, Any] = {"saved": str(out), "program": made.name, "heads": len(made.W_Q), "rows": len(made.rows)}
    if isinstance(made, library.Algorithm):
        facts |= {"error": made.error, "error_is": made.how}
    show({**facts, "bound_of_the_module": vm.certificate.bound, **subject_facts(vm.certificate)}, json)


def interpret(
    path: Module,
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program (.npz or .json).")],
    array: Annotated[Path, typer.Argument(metavar="ARRAY", help="Data (.npy, .csv or .json): tokens by features.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the output: a .npy.")] = None,
    json: Json = False,
) -> None:
    """Check the module, run a program on data, and print the output: a line for each token."""
    check_outputs(output=out)
    with progress_shown("checking the module"):
        import numpy as np
        import torch

        from weightwright import report
        from weightwright.interpreter.program_files import load_program

        vm = ww.Interpreter.load(saved_file(path))
        found = load_program(vm, program)
        x = np.asarray(_array(array), dtype=np.float64)
        with torch.no_grad():
            y = vm(torch.tensor(x), found).double().numpy()
        if out is not None:
            if out.suffix != ".npy":
                raise ValueError(f"--out must end in .npy, not {out.name}")
            np.save(out, y)
    if json:
        typer.echo(report.to_json({
            "program": found.name, "bound": vm.certificate.bound, "subject": vm.certificate.subject,
            "status": vm.certificate.status,
            "fingerprint": vm.fingerprint, "values": y.tolist(),
        }))  # fmt: skip
    else:
        for token in y.reshape(-1, vm.features):
            typer.echo(" ".join(f"{number!r}" for number in token.tolist()))
        within = f"within {round_up(vm.certificate.bound)} of the plain head"
        typer.echo(f"{report.printable(found.name)}: {within}", err=True)


def _argument(text: str) -> tuple[str, Any]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise ValueError(f"--with takes NAME=VALUE, as in --with rows=8, not {text!r}")
    if Path(value).suffix in (".npy", ".csv"):
        return name, _array(Path(value))
    try:
        return name, loads(value)
    except ValueError:
        return name, value


def _array(path: Path) -> Any:
    import numpy as np

    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    if path.suffix == ".json":
        return loads(path.read_text())
    raise ValueError(f"an array is a .npy, .csv or .json file, not {path.name}")
