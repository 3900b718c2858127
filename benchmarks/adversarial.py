"""Attack every kind of network: is any output further from its target than the bound says?

python benchmarks/adversarial.py floats [--outputs 1e8] [--write FILE]   float32 and float64, by search
python benchmarks/adversarial.py bfloat16 [--write FILE]                 every input there is, at three batch sizes

The search looks at ends, corners, kinks and points between keys, then around the worst inputs so far; of every batch
the worst are compared with the exact target in balls. Exit code 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flint import arb
from fuzz_truth import COUNT, worst_violation
from network_cases import BF16, CASES, Made, bessel

import weightwright as ww
from weightwright.claims.one_layer_claims import SampledClaim
from weightwright.enclosures.balls.series import series_along, working_precision
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import parse

GROUPS = ("heads", "kinks", "jumps", "several variables", "opaque", "compiled", "theorems", "rules")
#: Seconds of one search; rounds of searches go on until all networks together have given enough outputs.
ROUND = 1.0
BATCHES = (1, 7, 4096)
#: Rounds of inputs of a network that no search looks at.
TRIALS = 20


@dataclass
class Attacked:
    """What became of one network: how many output numbers were compared, and the largest error over the bound."""

    name: str
    kind: str
    dtype: str
    outputs: int = 0
    worst: float = 0.0


#: Formulas beside those of `network_cases.py`, on [-1, 1], in both dtypes.
MORE = ("x**3 - x", "atan(4*x)", "sqrt(2+x)*sin(3*x)", "exp(-8*x**2)", "log(3+2*x)", "softplus(4*x)", "x/(1+x**2)")


def build(groups: tuple[str, ...]) -> Iterator[tuple[str, str, Any]]:
    """(name, kind, network) of every case with a bound that a search can look at."""
    for text in MORE:
        for dtype, tol in ((torch.float32, 1e-4), (torch.float64, 1e-7)):
            yield f"{text}, {dtype}", "heads", ww.approximate(text, (-1, 1), tol, dtype=dtype)
    for name, case in CASES.items():
        if case.group not in groups:
            continue
        try:
            made = case.make()
        except ww.WeightwrightError:
            continue  # cases that must be refused
        net = made.net if isinstance(made, Made) else made
        said = getattr(net, "certificate", None)
        if said is not None and np.isfinite(said.bound) and net.network.dtype != "bfloat16":
            yield name, case.group, net


def attack_floats(outputs: float) -> list[Attacked]:
    networks = list(build(GROUPS))
    print(f"{len(networks)} networks")
    attacked: dict[str, Attacked] = {}
    total, seed = 0, 0
    while total < outputs:
        for name, kind, net in list(networks):
            opaque = isinstance(net.certificate.claim, SampledClaim)
            try:
                found = ww.search(net, ROUND, seed, reference=_bessel if opaque else None)
            except ww.WeightwrightError:  # grids, prompts, networks side by side
                networks = [one for one in networks if one[0] != name]
                attacked[name] = compare_exactly(name, kind, net)
                continue
            row = attacked.setdefault(name, Attacked(name, kind, net.network.dtype))
            each = (net.network.tokens or 1) * len(net.network.outputs)
            row.outputs, row.worst = row.outputs + found.inputs * each, max(row.worst, found.error / found.bound)
            total += found.inputs * each
            if row.worst > 1:
                print(f"VIOLATED: {name} at {found.x!r}: {found.error!r} > {found.bound!r}")
        # what is quick is searched longer: a slow network has had its rounds when the quick ones have theirs
        seed += 1
        if seed >= 3:
            rates = {row.name: row.outputs for row in attacked.values()}
            networks = sorted(networks, key=lambda one: -rates.get(one[0], 0))[: max(40, len(networks) // 2)]
        print(f"round {seed}: {total:.3g} outputs of {len(attacked)} networks", flush=True)
    return list(attacked.values())


def compare_exactly(name: str, kind: str, net: Any) -> Attacked:
    """What no search looks at is run on random inputs, corners and ends, and compared with its target in 200 bits. How
    near the bound the errors come is not said: 0, or 2 where one is above it."""
    row, rng = Attacked(name, kind, net.network.dtype), np.random.default_rng(0)
    for _ in range(TRIALS):
        wrong = worst_violation(net.network, net.certificate, rng)
        row.outputs += COUNT * (net.network.tokens or 1) * len(net.network.outputs)
        if wrong is not None:
            print(f"VIOLATED: {name}: {wrong}")
            row.worst = 2.0
    return row


def _bessel(x: np.ndarray) -> np.ndarray:
    return np.asarray(bessel(x[:, 0]))


# bfloat16


FORMULAS = {
    "sin(2*x)": (-1, 1), "cos(x)": (-1, 1), "x": (-1, 1), "x**2": (-1, 1), "exp(x)": (-1, 1), "tanh(3*x)": (-2, 2),
    "sigmoid(x)": (-4, 4), "relu(x)": (-1, 1), "abs(x)": (-1, 1), "erf(x)": (-2, 2), "x/3": (-1, 1),
    "x - 0.1": (-1, 1), "3*x + 0.5": (-2, 2), "1/(1+x**2)": (-1, 1), "x**3": (-1, 1), "softplus(x)": (-2, 2),
}  # fmt: skip
COMPILED = {
    "x*2**126": (lambda x: x * 2.0**126, (-(2.0**-126), 2.0**-126), 2.0),
    "x*2**120": (lambda x: x * 2.0**120, (-(2.0**-120), 2.0**-120), 2.0),
    "x": (lambda x: x, (-1, 1), 0.5),
    "x*2**(-130)": (lambda x: x * 2.0**-130, (-1, 1), 0.5),
    "3*x - 1": (lambda x: 3 * x - 1, (-1, 1), 0.5),
    "x/7": (lambda x: x / 7, (-1, 1), 0.5),
    "relu(x)": (torch.relu, (-1, 1), 0.5),
    "tanh(x)": (torch.tanh, (-1, 1), 0.5),
    "sin(x)": (torch.sin, (-1, 1), 0.5),
    "x*x": (lambda x: x * x, (-1, 1), 0.5),
    "exp(-x)": (lambda x: torch.exp(-x), (-1, 1), 0.5),
    "sigmoid(2*x)": (lambda x: torch.sigmoid(2 * x), (-1, 1), 0.5),
}


def attack_bfloat16() -> list[Attacked]:
    """Every bfloat16 number of the domain, subnormal ones included, in batches of 1, 7 and 4,096."""
    rows = []
    for name, kind, net, target in _in_bfloat16():
        numbers = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
        lo, hi = float(net.certificate.domain.lo.ravel()[0]), float(net.certificate.domain.hi.ravel()[0])
        x = numbers[(numbers.double() >= lo) & (numbers.double() <= hi)][:, None]
        x = x.repeat(max(1, -(-BATCHES[-1] // len(x))), 1)  # few inputs fill a large batch several times
        rows.append(row := Attacked(name, kind, "bfloat16"))
        with torch.no_grad():
            for batch in BATCHES:
                y = torch.cat([net(part[:, None])[:, 0] for part in x.split(batch)]).double().numpy()[:, 0]
                at = x[:, 0].double().numpy()
                error = np.abs(y - target.rough(at))
                top = np.argsort(-np.nan_to_num(error, nan=np.inf))[:256]
                with working_precision():
                    exact = max(float(abs(arb(float(y[i])) - target.exact(float(at[i]))).upper()) for i in top)
                row.outputs, row.worst = row.outputs + len(x), max(row.worst, exact / net.certificate.bound)
        print(f"{name}: {row.outputs} outputs, {row.worst:.4f} of the bound {net.certificate.bound:.3g}", flush=True)
    return rows


@dataclass(frozen=True)
class _Formula:
    text: str

    def rough(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(values(parse(self.text, ("x",)), x))

    def exact(self, x: float) -> arb:
        return series_along(parse(self.text, ("x",)), {"x": (arb(x), arb(0))}, 0)[0]


def _in_bfloat16() -> Iterator[tuple[str, str, Any, _Formula]]:
    for text, domain in FORMULAS.items():
        for kernel in ("dot", "anchor"):
            try:
                net = ww.approximate(text, domain, 1.0, dtype=BF16, kernel=kernel)
            except (ww.WeightwrightError, ValueError) as error:
                print(f"{text}, {kernel}: {error}")
                continue
            yield f"{text}, {kernel}", "heads", net, _Formula(text)
    for text, (function, domain, tol) in COMPILED.items():
        yield f"compiled {text}", "compiled", ww.compile(function, domain, tol, dtype=BF16), _Formula(text)


def summarise(rows: list[Attacked]) -> None:
    print(f"\n{'kind':20} {'dtype':9} networks {'outputs':>13}  largest error / bound")
    for kind, dtype in sorted({(row.kind, row.dtype) for row in rows}):
        own = [row for row in rows if (row.kind, row.dtype) == (kind, dtype)]
        outputs, worst = sum(row.outputs for row in own), max(row.worst for row in own)
        print(f"{kind:20} {dtype:9} {len(own):8} {outputs:13,}  {worst:.6f}")
    print(f"{'all':30} {len(rows):8} {sum(row.outputs for row in rows):13,}  {max(row.worst for row in rows):.6f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("floats", "bfloat16"))
    parser.add_argument("--outputs", type=float, default=1e8, help="output numbers to compare in all (floats)")
    parser.add_argument("--write", type=Path, help="a JSON of what was found")
    asked = parser.parse_args()
    start = time.perf_counter()
    rows = attack_floats(asked.outputs) if asked.what == "floats" else attack_bfloat16()
    summarise(rows)
    broken = [row for row in rows if not row.worst <= 1]
    if asked.write is not None:
        seconds, networks = round(time.perf_counter() - start), [asdict(row) for row in rows]
        facts = {"seconds": seconds, "broken": len(broken), "networks": networks}
        asked.write.write_text(json.dumps(facts, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
