"""The checker's rules for networks that run an algorithm on their prompt: one pass against the exact one.

The network is compared with what it must be, number by number (`prompt_layers`); the tables are examined
(`prompt_tables`); here the errors of f go through the sum over the samples, the middle and the mixing of the states.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import LARGEST, require, terms_hold
from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import SMALLEST, UNIT, underflow
from weightwright.checker.one_layer.layer import exact_factor
from weightwright.checker.prompt.prompt_layers import ReadPrompt, read_prompt
from weightwright.checker.prompt.prompt_tables import (
    Reach,
    Tables,
    float_above,
    largest_size,
    summand_holds,
    tables_of,
)
from weightwright.claims.certificate import Certificate, Terms
from weightwright.claims.kinds import MASKED
from weightwright.claims.prompt import ARGUMENTS, READ_OUT, STATES, Pass, PromptClaim
from weightwright.enclosures.balls.series import largest
from weightwright.network import Network
from weightwright.numbers import Floats

#: At least the largest value of t sigmoid(-t): how far t sigmoid(t) is from relu(t).
GATE = 0.2785


def agree_prompt(network: Network, certificate: Certificate, prompt: PromptClaim) -> None:
    """Refuse (CertificateError) unless every pass is within the certificate's bound of the exact one."""
    found = PassErrors(network, certificate, prompt)
    for tables in (*found.summands, *found.read_out):
        summand_holds(tables)
    terms = found.terms()
    terms_hold(dataclasses.replace(terms, rounding=0.0), arb(terms.rounding), certificate)


def prompt_errors(network: Network, certificate: Certificate, prompt: PromptClaim) -> Terms:
    """What the terms come to if every claim about the tables holds. For finding out what to claim: a check examines
    the claims too."""
    return PassErrors(network, certificate, prompt).terms()


@dataclass(frozen=True)
class _Off:
    """A number of at most this size in the exact pass, and what the computed one is off by, by cause."""

    size: arb
    approximation: arb
    leakage: arb
    rounding: arb

    @property
    def largest(self) -> arb:
        """What the computed number can be."""
        return self.size + self.approximation + self.leakage + self.rounding

    def rounded(self, by: arb) -> _Off:
        return dataclasses.replace(self, rounding=(self.rounding + by).upper())


class PassErrors:
    """Reads the network and composes the errors of one pass, and of the read-out."""

    def __init__(self, network: Network, certificate: Certificate, prompt: PromptClaim) -> None:
        _well_formed(prompt)
        _stated(certificate, prompt)
        require(not Machine(network.dtype).flushed, f"no rule for prompts in {network.dtype}, which flushes")
        box, shape = certificate.domain, (network.tokens or 1, len(network.inputs))
        require(box.lo.shape in (shape, shape[1:]), f"a domain of {box.lo.shape} is no box of {shape[1]} features")
        require(bool(np.isfinite([box.lo, box.hi]).all() and (box.lo < box.hi).all()), "the domain is no box")
        lo, hi = (np.broadcast_to(end, shape) for end in (box.lo, box.hi))
        require(prompt.queries <= shape[0], f"{prompt.queries} predictions from {shape[0]} tokens")
        self.read, self.prompt, self.n = read_prompt(network, prompt), prompt, shape[0]
        if prompt.has("threshold"):  # the last inputs
            require(bool((lo[:, -prompt.features :] >= 0).all()), "a threshold may be negative")
        self.reach, self.asked = Reach.of(prompt, lo, hi), Reach.of(prompt, lo, hi, prompt.answer)
        self.dtype, self.u, self.tiny = network.dtype, UNIT[network.dtype], SMALLEST[network.dtype]
        self.summands = list(self._summands(self.read))
        self.read_out = list(self._read_out(self.read))
        for size in self._sizes():
            self._fits(size)

    def _summands(self, read: ReadPrompt) -> Iterator[Tables]:
        start = 0
        for summand in self.prompt.summands:
            tables = read.tables[start : start + summand.tables]
            start += summand.tables
            yield tables_of(summand, tables, self.reach, self.prompt.features, self.dtype)

    def _read_out(self, read: ReadPrompt) -> Iterator[Tables]:
        if self.prompt.read_out is not None:
            yield tables_of(self.prompt.read_out, read.read_out, self.asked, self.prompt.features, self.dtype)

    def terms(self) -> Terms:
        """The largest of any pass and of the read-out, or of f u itself."""
        reach = self.reach
        if not self.prompt.passes:
            return _as_terms([self._products(self.summands, {"u": reach.u}, 1)])
        betas = iter(self.read.gate_betas)
        z_of = self._products(self.summands, {"u": reach.sum_u, "r": reach.sum_r}, self.n)
        found = [row for step in self.prompt.passes for row in self._pass(step, z_of, betas)]
        if self.read_out:
            found.append(self._products(self.read_out, {"one": arb(1)}, 1))
        return _as_terms(found)

    def _products(self, summands: Iterable[Tables], values: Mapping[str, arb], samples: int) -> _Off:
        """f u (and h r) of this number of samples, added up exactly; values: the sums of their largest |u| and |r|."""
        u, sizes = self.u, self._sizes_of_factors()
        size = approximation = leakage = rounding = lost = held = adding = arb(0)
        one = arb(0)  # what a single sample holds
        for of in summands:
            claimed, times, most = of.summand.claim.terms, values[of.summand.factor], sizes[of.summand.factor]
            approximation += claimed.approximation * times
            leakage += claimed.leakage * times
            rounding += claimed.rounding * times
            size += largest_size(of) * times
            for table in of.tables:
                weight, largest_value = abs(arb(table.weight)), _largest_value(table.v)
                mean = abs(arb(table.mean)) * times
                head = (weight * largest_value + claimed.rounding) * times
                product = arb(0) if exact_factor(weight) else u * head
                adding += product
                if held > 0:  # g is 0 before the first table
                    adding += u * (held + head + adding)
                held += head
                if table.mean:
                    product = arb(0) if exact_factor(arb(table.mean)) else u * mean
                    adding += product + u * (held + mean * (1 + u) + adding)
                    held += mean
                lost += 2 * (weight + 1) * underflow(len(table.v), largest_value * most, self.dtype)
                one += (weight * largest_value + claimed.rounding + abs(arb(table.mean))) * most
                self._fits(one * (1 + len(table.v)) * 2)
        return _Off(size, approximation, leakage, rounding + adding + samples * lost)

    def _sizes_of_factors(self) -> dict[str, arb]:
        """The largest number that a table's function is multiplied with."""
        return {"u": self.reach.u, "r": self.reach.r, "one": arb(1)}

    def _pass(self, step: Pass, gradient: _Off, betas: Iterator[float]) -> list[_Off]:
        """The new states."""
        u, tiny, reach = self.u, self.tiny, self.reach
        alphas = [abs(arb(factor)) for factor in np.ravel(step.alpha).tolist()]
        own, total = largest(alphas) * reach.w, gradient.largest
        inexact = largest([arb(0), *(alpha for alpha in alphas if not exact_factor(alpha))]) * reach.w
        # every sample's g goes through at most n - 1 additions, then alpha w is added
        z = gradient.rounded(((1 + u) ** (self.n - 1) - 1) * total + u * inexact + tiny)
        z = dataclasses.replace(z.rounded(u * (own * (1 + u) + z.largest)), size=z.size + own)
        q = self._middle(step, z, betas)
        self._fits(z.largest)
        self._fits(q.largest)
        return [self._mixed([arb(c) for c in row], z, q, step) for row in step.method.tolist()]

    def _middle(self, step: Pass, z: _Off, betas: Iterator[float]) -> _Off:
        """q, and what it is off by beyond what z is: z's own error enters with a factor between 0 and 1."""
        u, tiny, reach, nothing = self.u, self.tiny, self.reach, arb(0)
        if step.middle == "none":
            return _Off(nothing, nothing, nothing, nothing)
        exp_off = Machine(self.dtype).row("exp").units * u
        # two exponentials, their sum, normalising, and the product with the value
        weight = (1 + exp_off) / (1 - exp_off) / (1 - u) * (1 + u) ** 3 - 1
        if step.middle == "clock":
            value = (z.largest + reach.p) * (1 + u)
            return _Off(z.largest + reach.p, nothing, nothing, (u + weight) * value + 8 * tiny * (1 + value))
        beta = next(betas)
        require(
            math.frexp(beta)[0] == 0.5 and 1 <= beta < math.inf,
            f"beta = {beta!r} of a gate is no power of two from 1 on",
        )
        value = (z.largest + reach.tau) * (1 + u)
        self._fits(beta * value)
        gate = arb(GATE) / beta
        # of the two gates one at most is open, and a closed one passes on no more than `gate`
        rounding = (
            u * z.largest + weight * (z.largest * (1 + u) + 2 * gate) + u * (z.largest + 2 * gate) * (1 + 2 * weight)
        )
        return _Off(z.largest, gate, nothing, rounding + 16 * tiny * (1 + value))

    def _mixed(self, row: list[arb], z: _Off, q: _Off, step: Pass) -> _Off:
        """A state: up to four products, added up."""
        c_z, c_q, c_p, c_w = row
        through = abs(c_z) if step.middle == "none" else abs(c_z).max(abs(c_z + c_q))
        computed = [abs(c_z) * z.largest, abs(c_q) * q.largest, abs(c_p) * self.reach.p, abs(c_w) * self.reach.w]
        used = [i for i, factor in enumerate(row) if factor != 0]
        roundings = max(len(used) - 1, 0) + any(not exact_factor(row[i]) for i in used)
        total = sum(computed, arb(0))
        rounding = through * z.rounding + abs(c_q) * q.rounding + ((1 + self.u) ** roundings - 1) * total
        new = _Off(
            total,
            through * z.approximation + abs(c_q) * q.approximation,
            through * z.leakage,
            rounding + 8 * self.tiny,
        )
        self._fits(new.largest)
        return new

    def _sizes(self) -> Iterator[arb]:
        """Inputs, keys, queries, scores and values, also those that nobody reads."""
        reach = self.reach
        yield from (reach.x, reach.y, reach.w, reach.p, reach.tau, reach.u, reach.sum_u, reach.r, reach.sum_r)
        for table in (*self.read.tables, *self.read.read_out):
            asking = self.asked if table.factor == "one" else reach
            beta = arb(table.beta)
            kappa, lam, c, v = (arb(_largest_value(part)) for part in (table.kappa, table.lam, table.c, table.v))
            yield from (kappa * reach.x, lam * reach.y, beta * (asking.w + 1))
            yield 2 * beta * (kappa * asking.products + lam * reach.y + c)
            yield 2 * len(table.v) * v * self._sizes_of_factors()[table.factor]
        ticks = zip(self.read.times, self.prompt.passes, strict=False)
        yield sum((times * abs(arb(step.tick)) for times, step in ticks), abs(arb(self.prompt.clock)))

    def _fits(self, size: arb) -> None:
        require(bool(size < LARGEST[self.dtype]), f"a number may overflow {self.dtype}")


def _stated(certificate: Certificate, prompt: PromptClaim) -> None:
    """Kernel, formula and assumptions are what they must be, and nothing else is claimed."""
    require(certificate.kernel == "dot", "networks with a prompt run in kernel 'dot'")
    words = prompt.in_words()
    require(certificate.formula == words, f"the network computes {words!r}")
    leans_on = {ARGUMENTS, STATES, MASKED, *([] if prompt.read_out is None else [READ_OUT])}
    require(leans_on <= set(certificate.assumptions), "the certificate hides an assumption")


def _well_formed(prompt: PromptClaim) -> None:
    whole = (prompt.features, *(summand.tables for summand in prompt.summands))
    require(all(type(x) is int and x > 0 for x in whole) and len(whole) > 1, f"features and tables are {whole}")
    require(type(prompt.own_values) is bool, f"own_values = {prompt.own_values!r}")
    kinds = [summand.factor for summand in prompt.summands]
    require(set(kinds) <= {"u", "r"} and "u" in kinds, f"f is multiplied with {kinds}")
    alone = "r" not in kinds or (prompt.own_values and len(prompt.passes) > 0)
    require(alone, "values of a penalty go with values of the examples, and with passes")
    _well_formed_read_out(prompt)
    answers = "wp"[: prompt.states] if prompt.passes else ("gradients",)
    require(prompt.answer in tuple(answers), f"the answer is {prompt.answer!r}")
    clocked = prompt.has("clock")
    alphas = tuple(step.alpha for step in prompt.passes)
    numbers: tuple[int | float, ...] = (prompt.clock, *(step.tick for step in prompt.passes))
    # a whole number of more bits than a float has would be another one in the layers
    fine = all(isinstance(x, float) or float(x) == x for x in numbers)
    fine = fine and all(isinstance(alpha, np.ndarray) and alpha.dtype == np.float64 for alpha in alphas)
    require(fine, f"alpha, ticks and clock must be floats, not {numbers + alphas}")
    for step in prompt.passes:
        shapes = ((), (prompt.features,))
        require(step.alpha.shape in shapes, f"alpha has the shape {step.alpha.shape}, not one of {shapes}")
        require(step.method.shape == (prompt.states, 4) and prompt.states in (1, 2), "a method of another shape")
        require(step.middle in ("none", "threshold", "clock"), f"no rule for the middle {step.middle!r}")
        require(step.middle != "clock" or prompt.states == 2, "a clock goes with two states")
        require(step.middle != "none" or not step.method[:, 1].any(), "nothing is in the middle of a pass")
        require(prompt.states == 2 or not step.method[:, 2].any(), "there is no second state")
        require(bool(np.isfinite(step.method).all() and np.isfinite(step.alpha).all()), "a pass with no number")
        require(math.isfinite(step.tick) and (clocked or step.tick == 0), "a tick without a clock")
    require(math.isfinite(prompt.clock) and (clocked or prompt.clock == 0), "there is no clock")


def _well_formed_read_out(prompt: PromptClaim) -> None:
    count, read_out = prompt.queries, prompt.read_out
    if read_out is None:
        require(type(count) is int and count == 0, f"queries = {count!r}, and nothing is read out")
        return
    require(type(count) is int and count > 0, f"queries = {count!r} is no number of predictions")
    require(len(prompt.passes) > 0, "a read-out comes after passes")
    require(read_out.factor == "one", f"the read-out is multiplied with {read_out.factor!r}")
    require(type(read_out.tables) is int and read_out.tables > 0, f"the read-out has {read_out.tables!r} tables")


def _as_terms(outputs: list[_Off]) -> Terms:
    kinds = ("approximation", "leakage", "rounding")
    worst = [largest(getattr(output, kind) for output in outputs) for kind in kinds]
    require(all(x.is_finite() for x in worst), "an error is not bounded")
    return Terms(*(float_above(x) for x in worst))


def _largest_value(values: Floats) -> float:
    return float(np.abs(values).max())
