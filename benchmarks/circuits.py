"""Every network of `network_cases` rebuilt from the JSON of its circuit alone, beside the network itself.

python benchmarks/circuits.py [--only PATTERN]

Prints the largest difference from the reference semantics and, in float64, from the module; exits with 1 above LARGEST.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch

import numpy as np
import torch
from circuit_from_json import run_json
from network_cases import CASES, Made, draw_inputs

import weightwright as ww
from weightwright.network.interpreter import interpret

LARGEST = 1e-9


def compare(made: Made) -> tuple[float, float]:
    """From the reference semantics, and from the module if it runs in float64."""
    net = made.net
    made.tokens = made.tokens or net.network.tokens
    x = made.inputs if made.inputs is not None else draw_inputs(made)
    X = x.double().numpy()
    found = run_json(net.circuit().to_json(), X)
    with torch.no_grad():
        ran = net(x).double().numpy() if net.dtype == torch.float64 else found
    return float(np.abs(found - interpret(net.network, X)).max()), float(np.abs(found - ran).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="names of cases, with * and ?")
    only, worst, count = parser.parse_args().only, 0.0, 0
    for name, case in CASES.items():
        if not fnmatch(name, only):
            continue
        try:
            made = case.make()
        except (ww.WeightwrightError, ValueError):
            continue  # cases that are about a refusal
        made = made if isinstance(made, Made) else Made(net=made)
        if isinstance(made.net, ww.AttentionNetwork):
            reference, ran = compare(made)
            count, worst = count + 1, max(worst, reference, ran)
            print(f"{reference:9.2g} {ran:9.2g}  {name}", flush=True)
    print(f"{count} networks, largest difference {worst:.2g}")
    return int(not worst <= LARGEST)


if __name__ == "__main__":
    sys.exit(main())
