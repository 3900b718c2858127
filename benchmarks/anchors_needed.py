"""The table of docs/approximate.md: anchors and proven bounds of smooth functions on [-1, 1], as Markdown."""

from __future__ import annotations

import weightwright as ww

FORMULAS = (
    "x",
    "x**2",
    "exp(x)",
    "sin(5*x)",
    "sin(10*x)",
    "tanh(3*x)",
    "erf(2*x)",
    "gelu(4*x)",
    "log(2+x)",
    "sqrt(1.5+x)",
    "exp(-x**2)*cos(3*x)",
    "1/(1+25*x**2)",
)
TOLERANCES = (1e-4, 1e-8, 1e-10)


def main() -> None:
    print("| function | " + " | ".join(f"tol {tol:g}: anchors | proven bound" for tol in TOLERANCES) + " |")
    print("|---" * (1 + 2 * len(TOLERANCES)) + "|")
    for formula in FORMULAS:
        cells = []
        for tol in TOLERANCES:
            net = ww.approximate(formula, (-1, 1), tol)
            assert net.certificate is not None
            assert net.certificate.status == "PROVEN"
            cells += [str(len(net.network.registers)), f"{net.certificate.bound:.1e}"]
        print(f"| `{formula}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
