"""Every plan of all `network_cases` against the numpy reference: batches, layouts of memory, threads.

python benchmarks/plans.py [NAME*]         a line for each kind of network, and every one whose output is farther from
                                           the reference than its certificate allows; it ends with 1 if there is one
python benchmarks/plans.py --device cuda   the same networks on a GPU
python benchmarks/plans.py --share 1/4     every fourth of them, from the first: for several processes side by side

Every network runs on 1, 7 and 10^5 inputs of its domain (fewer where an input is many tokens, or many passes), as they
come, strided and turned, on one thread and on two (twice on a GPU, where later runs may be replayed). What is allowed
is the rounding of the certificate, twice, since numpy rounds as well; of networks that run an algorithm it is the bound
of a pass, for each of the passes and twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch

import numpy as np
import torch
from compiled import head, row
from network_cases import CASES, Made, draw_inputs
from torch import Tensor

import weightwright as ww
from weightwright.network import Loop
from weightwright.runtime import AttentionNetwork, interpret

MANY = 10**5
#: Of a large batch this many outputs are compared: numpy takes long.
COMPARED = 200
#: Multiply-adds that the largest batch may take, about: a minute.
WORK = 2**36


def layouts(x: Tensor) -> Iterator[Tensor]:
    """The same numbers as they lie, with gaps between them, and turned."""
    yield x
    yield torch.stack([x, x], -1)[..., 0]
    yield x.mT.contiguous().mT


def passes_of(net: AttentionNetwork) -> int:
    return max((layer.times for layer in net.network.layers if isinstance(layer, Loop)), default=1)


def allowed(net: AttentionNetwork) -> float:
    said = net.certificate
    assert said is not None
    passes = passes_of(net)
    one = said.terms.rounding if passes == 1 and said.terms.rounding > 0 else said.bound
    return 2 * passes * one


def repeat(x: Tensor, count: int) -> Tensor:
    return x[torch.arange(count) % len(x)]


def worst_share(net: AttentionNetwork, x: Tensor) -> tuple[float, int]:
    """The largest distance to the reference, as a share of what is allowed; the largest batch."""
    most, worst, largest = allowed(net), 0.0, 0
    x = x.unsqueeze(-2) if x.ndim == 2 else x  # any number of tokens: one in each input
    each = max(1, net.cost.multiply_adds) * passes_of(net) * x.shape[-2]
    for batch in sorted({1, 7, int(min(MANY, max(7, WORK // each)))}):
        given = repeat(x, batch)
        some = torch.arange(0, batch, max(1, batch // COMPARED))
        exact = interpret(net.network, given[some].double().numpy())
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for one in layouts(given):
                with torch.no_grad():
                    y = net(one.to(net.device)).cpu()
                off = np.abs(y[some].double().numpy() - exact).max()
                worst = max(worst, float(off / most) if most else float(off > 0) * np.inf)
        largest = batch
    return worst, largest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="*", help="names of networks")
    parser.add_argument("--device", default="cpu", help="where they run")
    parser.add_argument("--share", default="1/1", metavar="K/N", help="every Nth network, from the Kth")
    given = parser.parse_args()
    first, step = map(int, given.share.split("/"))
    seen: dict[str, Counter[str]] = {}
    shares: dict[str, float] = {}
    broken, start = 0, time.perf_counter()
    for name in list(CASES)[first - 1 :: step]:
        case = CASES[name]
        if not fnmatch(name, given.pattern):
            continue
        told = seen.setdefault(case.group, Counter())
        try:
            made = case.make()
        except (ww.WeightwrightError, ValueError):
            told["refused, which is the case"] += 1
            continue
        made = made if isinstance(made, Made) else Made(made)
        net = made.net
        if not isinstance(net, AttentionNetwork) or net.certificate is None or not np.isfinite(net.certificate.bound):
            told["without a bound"] += 1
            continue
        x = draw_inputs(made) if made.inputs is None else made.inputs
        share, largest = worst_share(net.to(given.device), x)
        told["compared"] += 1
        told["at 10^5"] += largest == MANY
        shares[case.group] = max(shares.get(case.group, 0.0), share)
        if not share <= 1:
            broken += 1
            print(f"{case.group}: {name}: {share:.3g} times what is allowed, {allowed(net):.3g}", flush=True)
    print("\n".join(head("networks", "compared", "at 10^5 inputs", "refused or without a bound", "largest share")))
    for group, told in seen.items():
        rest = told["refused, which is the case"] + told["without a bound"]
        print(row(group, str(told["compared"]), str(told["at 10^5"]), str(rest), f"{shares.get(group, 0):.3f}"))
    print(f"{broken} broken; {time.perf_counter() - start:.0f} s")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
