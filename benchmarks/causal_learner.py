"""Prompts x_1, y_1, x_2, y_2, ...: the network of `causal_learner` against descent in 60 digits, bit by bit, and sizes.

python benchmarks/causal_learner.py                five features: predictions, bits, and TransformerLens
python benchmarks/causal_learner.py --large        twenty features and forty examples, measured: minutes
python benchmarks/causal_learner.py --prompts 20   more prompts

Examples and w are standard normals. Descent is written anew here, by residuals and not by moments, in mpmath.
"""

from __future__ import annotations

import argparse
import time

import mpmath
import numpy as np
import torch

import weightwright as ww
from weightwright.incontext import CausalLearner, PrefixErrors

DIGITS = 60


def draw(seed: int, examples: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((examples, features))
    return X, X @ rng.standard_normal(features)


def descend(icl: CausalLearner, X: np.ndarray, y: np.ndarray) -> list[mpmath.mpf]:
    """What exact descent predicts at every x, from the examples before it."""
    one, predicted = icl.descent, []
    step, ridge = mpmath.mpf(one.step), mpmath.mpf(one.ridge)
    rows, targets = [[mpmath.mpf(a) for a in row] for row in X.tolist()], [mpmath.mpf(b) for b in y.tolist()]
    for i, x in enumerate(rows):
        w = [mpmath.mpf(0)] * one.features
        for _ in range(one.steps):
            misses = [mpmath.fdot(w, row) - t for row, t in zip(rows[:i], targets[:i], strict=True)]
            slopes = [mpmath.fdot(misses, [row[r] for row in rows[:i]]) / one.examples for r in range(one.features)]
            w = [a - step * (slope + ridge * a) for a, slope in zip(w, slopes, strict=True)]
        predicted.append(mpmath.fdot(w, x))
    return predicted


def compare(icl: CausalLearner, prompts: int) -> None:
    """Every prediction against exact descent, and its bound."""
    one = icl.descent
    errors, bounds, shares, missing = [], [], [], []
    for seed in range(prompts):
        X, y = draw(seed, one.examples, one.features)
        found, said = icl.predict(X, y).tolist(), icl.bound(icl.prompt(X, y))
        assert isinstance(said, PrefixErrors)
        gaps = [abs(mpmath.mpf(p) - q) for p, q in zip(found, descend(icl, X, y), strict=True)]
        assert all(gap <= bound for gap, bound in zip(gaps, said.bounds.tolist(), strict=True))
        assert all(gap <= bound for gap, bound in zip(gaps, said.arithmetic.tolist(), strict=True))
        errors.append(float(max(gaps)))
        bounds.append(said.bounds.max())
        shares.append(max(float(gap) / bound for gap, bound in zip(gaps, said.bounds.tolist(), strict=True)))
        missing.append(0.0 if said.missing is None else said.missing.max())
    print(f"{prompts} prompts of {one.examples} positions, all within their bounds: error at most {max(errors):.2g},")
    print(f"  bounds at most {max(bounds):.2g}, error / bound at most {max(shares):.2g};")
    print(f"  further steps would change a prediction by up to {max(missing):.2g}")


def change_later_examples(icl: CausalLearner, prompts: int) -> None:
    """No prediction before a token changes by one bit when that token and all after it do."""
    one, compared = icl.descent, 0
    for seed in range(prompts):
        prompt, other = (icl.prompt(*draw(s, one.examples, one.features)) for s in (seed, 1000 + seed))
        before = icl.net(prompt)
        for token in range(1, one.tokens):
            after = icl.net(torch.cat([prompt[:token], other[token:]]))
            assert torch.equal(before[:token], after[:token]), f"token {token} of prompt {seed} changes what is before"
            compared += token
    print(f"{compared:,} outputs compared by torch.equal with later examples changed: every bit the same")


def show_unrolled(steps: int, tol: float) -> None:
    icl = ww.incontext.causal_learner(5, 20, steps, domain=(1.0, 2.0, 8.0))
    began = time.perf_counter()
    net = icl.unroll(tol)
    built = time.perf_counter() - began
    assert net.certificate is not None
    export = net.to_transformer_lens()
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 5)), rng.uniform(-2, 2, 20)
    prompt = icl.prompt(X, y)
    with torch.no_grad():
        apart = float((export.run(prompt[None])[0] - net(prompt)).abs().max())
        loop = float((net(prompt)[0::2, 0] - icl(prompt)).abs().max())
    gaps = [abs(mpmath.mpf(p) - q) for p, q in zip(net(prompt)[0::2, 0].tolist(), descend(icl, X, y), strict=True)]
    assert max(gaps) <= net.certificate.bound
    heads = sum(1 for _ in net.network.heads)
    print(f"unrolled, {steps} steps: {len(net.network.layers)} layers, {heads} heads, native: {net.network.native},")
    print(
        f"  {net.certificate.status}, bound {net.certificate.bound:.2g}, error {float(max(gaps)):.2g}, {built:.0f} s;"
    )
    print(
        f"  in TransformerLens, attention {export.model.cfg.attention_dir}: {apart:.2g} apart; from the loop {loop:.2g}"
    )


def show_size(icl: CausalLearner, built: float, used: float) -> None:
    """built: seconds; used: of a core."""
    cost = icl.net.cost
    print(icl)
    registers = len(icl.net.network.registers)
    print(f"  built in {built:.0f} s, {used:.0f} s of a core:")
    print(f"  {cost.heads:,} heads, {cost.layers} layers, {registers} registers")
    X, y = draw(0, icl.descent.examples, icl.descent.features)
    icl.predict(X, y)
    began, cpu = time.perf_counter(), time.process_time()
    icl.predict(X, y)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    print(f"  {took:.2g} s a prompt, of which {used:.2g} s of {torch.get_num_threads()} core(s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    mpmath.mp.dps = DIGITS
    began, cpu = time.perf_counter(), time.process_time()
    if asked.large:
        icl = ww.incontext.causal_learner(20, 40, 40, domain=(5.0, 48.0, 16.0), proof="measured")
        show_size(icl, time.perf_counter() - began, time.process_time() - cpu)
        X, y = draw(0, 40, 20)
        print(f"  error of all predictions {np.abs(icl.predict(X, y).numpy() - icl.exact(X, y)).max():.2g}")
        return
    icl = ww.incontext.causal_learner(5, 20, asked.steps, ridge=0.05)
    show_size(icl, time.perf_counter() - began, time.process_time() - cpu)
    compare(icl, asked.prompts)
    change_later_examples(icl, asked.prompts)
    show_unrolled(2, 1e-6)


if __name__ == "__main__":
    main()
