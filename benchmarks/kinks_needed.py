"""The table of docs/approximate.md on functions that bend or jump: keys and proven bounds, `make bench`."""

from __future__ import annotations

import torch

import weightwright as ww

CASES: tuple[tuple[str, dict[str, float]], ...] = (
    ("relu(x)", {}),
    ("abs(x)", {}),
    ("clip(x, -0.5, 0.5)", {}),
    ("max(x, 0.3)", {}),
    ("softshrink(x, 0.2)", {}),
    ("abs(sin(3*x))", {}),
    ("sign(x)", {"dead_zone": 0.01}),
)
COLUMNS = (
    ("self", torch.float32, 1e-6),
    ("self", torch.float64, 1e-8),
    ("registers", torch.float32, 1e-5),
    ("registers", torch.float64, 1e-8),
)


def cell(formula: str, options: dict[str, float], sees: str, dtype: torch.dtype, tol: float) -> str:
    try:
        net = ww.approximate(formula, (-1, 1), tol, sees=sees, dtype=dtype, **options)
    except ww.ToleranceError as error:
        return f"not below {error.best:.1e}" if error.best is not None else "nothing proven"
    assert net.certificate is not None
    keys = [
        stop - start + (head.sees.data == "self") for head in net.network.heads for start, stop in [head.sees.registers]
    ]
    return f"{' + '.join(map(str, keys))} keys, {net.certificate.bound:.1e}"


def main() -> None:
    titles = [f"sees {sees}, {str(dtype).removeprefix('torch.')}, tol {tol:g}" for sees, dtype, tol in COLUMNS]
    print("| function | " + " | ".join(titles) + " |")
    print("|---" * (len(titles) + 1) + "|")
    for formula, options in CASES:
        cells = [cell(formula, options, *column) for column in COLUMNS]
        zone = ", 0.01 from 0" if options else ""
        print(f"| `{formula}`{zone} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
