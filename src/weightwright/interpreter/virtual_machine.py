"""`ww.Interpreter`: one frozen attention module; what it computes stands in its prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.certificate import Certificate, bound_in_short, round_up
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.errors import DomainError, ToleranceError
from weightwright.interpreter.frozen_module import PARTS, Sizes, build_module, domain_ends
from weightwright.interpreter.module_costs import ModuleCost, PapersCost, module_cost, papers_cost
from weightwright.interpreter.module_tables import choose_tables
from weightwright.interpreter.programs import Program, hidden_tokens, weights_in_prompt
from weightwright.loading import load
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.weights import dtype_name

Form = Literal["embedding", "stacked"]
Method = Literal["spectral", "faithful"]


class Interpreter:
    """One set of weights, built once for a size. A program, its data and who sees whom arrive in the prompt.

    tokens: data tokens, at most.
    features: numbers of a token.
    head_dim: the largest size of queries and keys.
    heads: how many a program may have.
    rows: constant tokens that a program may bring along.
    programs: 0, or how many programs a prompt holds: then the module is a loop that runs them all, each adding its
    output to x (`loop`), and the bound is about one pass.
    x_max: the largest entry of data and rows.
    w_max: the largest entry of a program's weights.
    k_max: the largest entry of W_K x.
    q_max: the largest entry of W_Q x.
    v_max: the largest entry of W_V x.
    tol: what the error must stay below, for all programs and inputs within these bounds at once; None: the best there
    is.
    dtype: "float64" or "float32".
    form: "embedding" puts all weights on the first token, "stacked" row r of every matrix on token r.
    method: "faithful" takes the papers' anchors, just as many as `anchors`: what Theorem 4.2 prints, at the temperature
    of the paper's experiment.
    anchors: the largest number of them that a table may have; there are at least as many tokens in a prompt.
    grid: of method "faithful": its anchors stand evenly from -grid to grid; None: features times x_max times w_max.

    >>> import numpy as np, torch, weightwright as ww
    >>> vm = ww.Interpreter(tokens=4, features=2, head_dim=2)
    >>> head = vm.program(W_Q=np.eye(2), W_K=np.eye(2), W_V=np.eye(2))
    >>> x = torch.tensor([[0.5, 0.0], [0.0, 0.5], [0.5, 0.5], [-0.5, 0.0]], dtype=torch.float64)
    >>> bool(abs(vm(x, head).numpy() - head.run(x)).max() < vm.certificate.bound), vm.certificate.status
    (True, 'PROVEN')
    """

    def __init__(
        self,
        tokens: int,
        features: int,
        head_dim: int,
        *,
        heads: int = 1,
        rows: int = 0,
        programs: int = 0,
        x_max: float = 1.0,
        w_max: float = 2.0,
        k_max: float = 4.0,
        q_max: float = 4.0,
        v_max: float = 4.0,
        tol: float | None = None,
        dtype: torch.dtype | str = "float64",
        form: Form = "embedding",
        method: Method = "spectral",
        anchors: int = 16,
        grid: float | None = None,
    ) -> None:
        for name, number, least in (
            ("tokens", tokens, 1), ("features", features, 1), ("head_dim", head_dim, 1), ("heads", heads, 1),
            ("rows", rows, 0), ("programs", programs, 0), ("anchors", anchors, 2),
        ):  # fmt: skip
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, not {number!r}")
        bounds = {"x_max": x_max, "w_max": w_max, "k_max": k_max, "q_max": q_max, "v_max": v_max}
        for name, bound in bounds.items():
            if not isinstance(bound, int | float) or not (np.isfinite(bound) and 0 < bound < 2.0**40):
                raise ValueError(f"{name} must be a positive number below 2^40, not {bound!r}")
        if form not in ("embedding", "stacked"):
            raise ValueError(f"form must be 'embedding' or 'stacked', not {form!r}")
        if method not in ("spectral", "faithful") or (grid is not None and method == "spectral"):
            raise ValueError(f"method must be 'spectral', or 'faithful' with a grid, not {method!r} with grid={grid!r}")
        name = dtype_name(dtype)
        if name not in ("float64", "float32"):
            raise ValueError(f"dtype must be 'float64' or 'float32', not {name!r}")
        self.tokens, self.features, self.head_dim, self.heads, self.rows = tokens, features, head_dim, heads, rows
        self.bounds = {bound: float(number) for bound, number in bounds.items()}
        stacked = form == "stacked"
        room = max(tokens + rows, anchors, max(head_dim, features) if stacked else 1)
        self.sizes = Sizes(room, features, head_dim, heads, stacked, programs)
        reach = None if method == "spectral" else float(grid or features * x_max * w_max)
        claim = choose_tables(self.sizes, self.bounds, name, anchors, reach)
        network = build_module(self.sizes, claim, name)
        self.net: AttentionNetwork = certify(network, claim, Box(*domain_ends(self.sizes, claim)))
        self.claim = claim
        if tol is not None and self.certificate.bound > tol:
            raise ToleranceError(
                f"tol={tol:g} cannot be proven in {name}: {round_up(self.certificate.bound)} is the best, of which"
                f" approximation {self.certificate.terms.approximation:.3g}, rounding"
                f" {self.certificate.terms.rounding:.3g}; smaller bounds of x, w, k, q and v help",
                self.certificate.bound,
            )

    def __repr__(self) -> str:
        said = self.certificate
        sizes = f"{self.tokens} tokens of {self.features}, {self.heads} heads of size {self.head_dim}, {self.rows} rows"
        return f"Interpreter({sizes}, bound {bound_in_short(said)}, {said.status})"

    @property
    def certificate(self) -> Certificate:
        """What is proven for all programs and inputs within the bounds."""
        said = self.net.certificate
        assert said is not None
        return said

    @property
    def fingerprint(self) -> str:
        """A hash of the weights: the same whatever was run."""
        return self.net.digest()

    @property
    def cost(self) -> ModuleCost:
        """Sizes of the prompt and the network, by formulas of the sizes (`interpreter.module_costs`); not of loops."""
        if self.sizes.times:
            raise ValueError(f"cost has formulas for programs=0; of a loop of {self.sizes.times}, vm.net.cost counts")
        return module_cost(self.sizes, [len(table.kappa) for table in self.claim.tables])

    def papers_cost(self, tol: float | None = None) -> PapersCost:
        """What the paper's own construction of this form asks for, for an error of tol (by default this module's
        bound) on these bounds: numbers only, nothing is built."""
        reach = max(self.bounds[f"{part}_max"] for part in PARTS)
        return papers_cost(self.sizes, self.tokens, reach, self.certificate.bound if tol is None else tol)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Interpreter:
        """A module that `save` wrote, checked; data and rows may together be as many tokens as it has.

        path: where it is.
        """
        net = load(path)
        claim = None if net.certificate is None else net.certificate.claim
        if not isinstance(claim, InterpreterClaim):
            raise ValueError(f"{os.fspath(path)} holds no interpreter")
        vm = cls.__new__(cls)
        vm.net, vm.claim = net, claim
        vm.sizes = Sizes(claim.tokens, claim.features, claim.head_dim, claim.heads, claim.stacked, claim.times)
        vm.tokens, vm.rows = claim.tokens, claim.tokens - 1
        vm.features, vm.head_dim, vm.heads = claim.features, claim.head_dim, claim.heads
        vm.bounds = {"x_max": claim.x_max, "w_max": claim.w_max}
        vm.bounds |= {f"{part}_max": table.claim.hi for part, table in zip(PARTS, claim.tables, strict=True)}
        return vm

    def save(self, path: str | os.PathLike[str]) -> None:
        """The module with its certificate, as every network.

        path: a .safetensors file.
        """
        self.net.save(path)

    def program(
        self,
        W_Q: Any,
        W_K: Any,
        W_V: Any,
        W_O: Any = None,
        beta: float = 1.0,
        rows: Any = None,
        sees: Any = None,
        name: str = "program",
    ) -> Program:
        """Encode a head, or several, as a program for this module. Numbers are rounded to its dtype.

        W_Q: (size, features), or (heads, size, features).
        W_K: the same.
        W_V: the same.
        W_O: (features, size), or one for each head; it is multiplied into W_V.
        beta: is multiplied into W_Q.
        rows: (r, features), tokens that stand before the data.
        sees: "causal", or truth values (tokens, rows + tokens), where a data token sees less than all rows and all
        data tokens.
        name: what messages call it.
        """
        Q, K, V = (self._matrices(what, W) for what, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V)))
        if not np.isfinite(beta):
            raise ValueError(f"beta must be a finite number, not {beta!r}")
        if W_O is not None:
            O = np.asarray(W_O, dtype=np.float64)  # noqa: E741
            V = (O[None] if O.ndim == 2 else O) @ V
        Q, K = self._fitted("W_Q", beta * Q, self.head_dim), self._fitted("W_K", K, self.head_dim)
        V = self._fitted("W_V", V, self.features)
        held = np.zeros((0, self.features)) if rows is None else self._rows(rows)
        return Program(Q, K, V, held, self._sees(sees, len(held)), name)

    def prompt(self, x: Tensor, program: Program | Sequence[Program]) -> Tensor:
        """What goes into the network: (..., tokens of a prompt, numbers of a token). Of a single pass a list of
        programs has one for each item of a batch; of a loop it is what runs, one after the other.

        x: (..., tokens, features).
        program: one, or a list.
        """
        if self.sizes.times:
            return self._prompt(x, [program] if isinstance(program, Program) else list(program))
        if isinstance(program, Program):
            return self._prompt(x, [program])
        if x.ndim != 3 or len(program) != len(x):
            raise ValueError(f"{len(program)} programs go with a batch of as many, not with x of {tuple(x.shape)}")
        return torch.stack([self._prompt(item, [one]) for item, one in zip(x, program, strict=True)])

    def _prompt(self, x: Tensor, programs: list[Program]) -> Tensor:
        """Rows, data, then padding; the weights of all programs; who sees whom in each."""
        rows = programs[0].rows
        if any(not np.array_equal(one.rows, rows) for one in programs):
            raise ValueError("programs of one prompt share their rows, which are tokens as the data are")
        x = self._data(x, programs)
        n, r, d = x.shape[-2], len(rows), self.features
        prompt = x.new_zeros(*x.shape[:-2], self.sizes.tokens, len(self.sizes.inputs))
        prompt[..., :r, :d] = torch.as_tensor(rows).to(x)
        prompt[..., r : r + n, :d] = x
        size = len(self.sizes.given)
        for number, one in enumerate(programs):
            weights = torch.as_tensor(weights_in_prompt(one, self.sizes)).to(x)
            prompt[..., : len(weights), d + number * size : d + (number + 1) * size] = weights
        first, g = d + max(self.sizes.times, 1) * size, self.sizes.codes
        prompt[..., first : first + g] = torch.eye(g).to(x)  # token i asks with code i
        for number in range(max(self.sizes.times, 1)):  # after the last program nothing is added
            one = programs[min(number, len(programs) - 1)]
            hidden = torch.as_tensor(-self.claim.hidden * hidden_tokens(one, n, self.sizes))
            prompt[..., first + (1 + number) * g : first + (2 + number) * g] = hidden.to(x)
        return prompt

    def __call__(self, x: Tensor, program: Program | Sequence[Program]) -> Tensor:
        """Run a program on data (..., tokens, features), or one on each item of a batch. DomainError with the numbers
        where W_K x, W_Q x or W_V x leaves its bound on this data: the module looks before it runs."""
        if self.sizes.times:
            raise ValueError(f"this module runs programs={self.sizes.times} in a loop: use vm.loop(programs, x)")
        out, n = self.net(self.prompt(x, program)), x.shape[-2]
        if isinstance(program, Program):
            return out[..., len(program.rows) : len(program.rows) + n, :]
        return torch.stack([y[len(one.rows) : len(one.rows) + n] for y, one in zip(out, program, strict=True)])

    def loop(self, programs: Sequence[Program], x: Tensor) -> Tensor:
        """Run programs one after the other inside the network: x becomes x plus what a program returns, again and
        again. All of it stands in one prompt; what is left of the loop when they have run adds 0, within the bound.

        programs: what runs, in this order.
        x: (..., tokens, features).
        """
        if not self.sizes.times:
            raise ValueError("this module was built for single programs: build it with programs=, or use vm.run")
        if not 1 <= len(programs) <= self.sizes.times:
            raise ValueError(f"{len(programs)} programs, and the interpreter was built for programs={self.sizes.times}")
        r = len(programs[0].rows)
        return self.net(self._prompt(x, list(programs)))[..., r : r + x.shape[-2], :]

    def run(self, programs: Sequence[Program], x: Tensor, residual: bool = False) -> Tensor:
        """One program after the other, each on what the last returned, added to its input if residual. The loop is
        outside the network: the module runs once for each program.

        programs: what runs, in this order.
        x: (..., tokens, features).
        residual: whether x is added to what a program returns.
        """
        for program in programs:
            y = self(x, program)
            x = x + y if residual else y
        return x

    def fits(self, program: Program, domain: Box | tuple[Any, Any] = (-1.0, 1.0)) -> bool:
        """Whether a program stays within the bounds for every x of a box of features: proven, roundings counted.

        program: from `program`.
        domain: a Box with an interval for each feature, or a pair for all.
        """
        box = Box.of(domain)
        lo, hi = (np.broadcast_to(end, (self.features,)) for end in (box.lo, box.hi))
        largest = np.maximum(np.abs(lo), np.abs(hi))
        middle, radius = lo / 2 + hi / 2, np.nextafter((hi - lo) / 2, np.inf) * (1 + 2.0**-50)
        slack = (self.features + 4) * 2.0**-52
        for bound, W in self._against(program):
            ends = np.abs(W @ middle) + np.abs(W) @ radius
            on_rows = np.abs(program.rows @ np.swapaxes(W, -1, -2))
            sizes = np.abs(W) @ largest, np.abs(program.rows) @ np.swapaxes(np.abs(W), -1, -2)
            if (ends + slack * sizes[0] > bound).any() or (on_rows + slack * sizes[1] > bound).any():
                return False
        return bool(largest.max() <= self.bounds["x_max"])

    def explain(self, program: Program) -> str:
        """For each head what it takes of every bound at most, where every |x| is at most x_max, and what is left.

        program: from `program`.
        """
        lines = [f"{program.name}: entries at most, of what the module was built for"]
        for m in range(len(program.W_Q)):
            for what, W, name in zip(
                "kqv", (program.W_K, program.W_Q, program.W_V), ("k_max", "q_max", "v_max"), strict=True
            ):
                reach, bound = (
                    float((np.abs(W[m]).sum(axis=-1) * self.bounds["x_max"]).max(initial=0.0)),
                    self.bounds[name],
                )
                left = f"{bound - reach:.4g} left" if reach <= bound else "depends on the data"
                lines.append(f"  head {m}: |W_{what.upper()} x| up to {reach:.4g} of {name} = {bound:g}, {left}")
            largest = max(float(np.abs(W[m]).max(initial=0.0)) for W in (program.W_K, program.W_Q, program.W_V))
            lines.append(f"  head {m}: weights up to {largest:.4g} of w_max = {self.bounds['w_max']:g}")
        return "\n".join(lines)

    def _against(self, program: Program) -> list[tuple[float, Floats]]:
        return [(self.bounds[f"{part}_max"], getattr(program, f"W_{part.upper()}")) for part in PARTS]

    def _matrices(self, what: str, W: Any) -> Floats:
        """(heads, size, features)"""
        found = np.asarray(W.detach().cpu() if isinstance(W, Tensor) else W, dtype=np.float64)
        found = found[None] if found.ndim == 2 else found
        if found.ndim != 3 or found.shape[2] != self.features:
            raise ValueError(
                f"{what} must be (size, {self.features}) or (heads, size, {self.features}), not {np.shape(W)}"
            )
        if len(found) > self.heads:
            raise ValueError(f"{what} has {len(found)} heads, and the interpreter was built for heads={self.heads}")
        return found

    def _fitted(self, what: str, W: Floats, most: int) -> Floats:
        """With rows of 0 up to the size of the module, in its dtype; refused where it does not fit."""
        if W.shape[1] > most:
            limit = "head_dim" if most == self.head_dim and what != "W_V" else "features"
            raise ValueError(f"{what} has {W.shape[1]} rows, and the interpreter was built for {limit}={most}")
        if not np.isfinite(W).all():
            raise ValueError(f"{what} has an entry that is no finite number")
        W = torch.as_tensor(np.pad(W, ((0, 0), (0, most - W.shape[1]), (0, 0)))).to(self.net.dtype).double().numpy()
        if np.abs(W).max(initial=0.0) > self.bounds["w_max"]:
            raise DomainError(
                f"{what} has an entry of {float(np.abs(W).max()):.6g}, beta and W_O included, above"
                f" w_max={self.bounds['w_max']:g}"
            )
        return W

    def _rows(self, rows: Any) -> Floats:
        held = np.asarray(rows, dtype=np.float64)
        if held.ndim != 2 or held.shape[1] != self.features:
            raise ValueError(f"rows must be (r, {self.features}), not {held.shape}")
        if len(held) > self.rows:
            raise ValueError(f"the program has {len(held)} rows, and the interpreter was built for rows={self.rows}")
        if not np.isfinite(held).all() or np.abs(held).max(initial=0.0) > self.bounds["x_max"]:
            raise DomainError(
                f"rows has an entry of {float(np.abs(held).max()):.6g}, above x_max={self.bounds['x_max']:g}"
            )
        return torch.as_tensor(held).to(self.net.dtype).double().numpy()

    def _sees(self, sees: Any, r: int) -> Bools | None:
        if sees is None:
            return None
        if isinstance(sees, str):
            if sees != "causal":
                raise ValueError(f"sees must be 'causal' or truth values, not {sees!r}")
            return np.concatenate([np.ones((self.tokens, r), dtype=bool), np.tri(self.tokens, dtype=bool)], axis=1)
        seen = np.asarray(sees)
        if seen.dtype != np.bool_ or seen.ndim != 2 or seen.shape[1] not in (seen.shape[0], r + seen.shape[0]):
            raise ValueError(
                f"sees must be truth values of shape (tokens, {r} + tokens), not {seen.dtype} {seen.shape}"
            )
        if not seen.any(axis=1).all():
            raise ValueError(
                f"sees: token {int(np.flatnonzero(~seen.any(axis=1))[0])} sees no token; let it see itself"
            )
        return seen

    def _data(self, x: Tensor, programs: list[Program]) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, not {type(x).__name__}; torch.tensor(x) makes one")
        if x.ndim < 2 or x.shape[-1] != self.features:
            raise ValueError(f"x must have shape (..., tokens, {self.features}), not {tuple(x.shape)}")
        if not 1 <= x.shape[-2] <= self.tokens:
            raise ValueError(f"x has {x.shape[-2]} tokens, and the interpreter was built for tokens={self.tokens}")
        r = len(programs[0].rows)
        for sees in (one.sees for one in programs if one.sees is not None):
            if sees.shape[1] != r + x.shape[-2]:
                raise ValueError(f"x has {x.shape[-2]} tokens, and the program's sees is for {sees.shape[1] - r}")
        if x.shape[-2] + r > self.sizes.tokens:
            raise ValueError(f"{x.shape[-2]} tokens and {r} rows are more than {self.sizes.tokens}")
        x = x.to(self.net.dtype)
        if not bool((x.abs() <= self.bounds["x_max"]).all()):  # NaN neither
            worst = x.abs().max() if bool(x.isfinite().all()) else x[~x.isfinite()][0]
            raise DomainError(f"x has an entry of {float(worst):.6g}, outside x_max={self.bounds['x_max']:g}")
        return x
