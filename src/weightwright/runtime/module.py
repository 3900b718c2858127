"""The torch module that runs any Network: batched, on CPU or CUDA, computing only the keys that are seen.

Shapes: B batch dimensions, n data tokens, d coordinates, p register keys, h query size, v value size.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from weightwright.circuit.circuit import Circuit
from weightwright.circuit.effects import Ablation, HeadName, PredictedEffect, predict_effect
from weightwright.circuit.taking_apart import take_apart
from weightwright.claims.certificate import Certificate, as_told, bound_in_short, summary_in_words
from weightwright.claims.files import network_digest, write
from weightwright.claims.target import Composite
from weightwright.errors import CertificateError
from weightwright.network import Cost, Network, cost
from weightwright.output_files import check_writable
from weightwright.runtime.admission import Domain, refuse_misfit, refuse_uncompared
from weightwright.runtime.confirming import Confirms
from weightwright.runtime.data_sets.remembering import Remembers
from weightwright.runtime.hooks import Replacement, run_with_cache, run_with_hooks
from weightwright.runtime.layer_modules import build_layer, read_layers
from weightwright.runtime.passes.by_pieces import run_by_pieces
from weightwright.runtime.program_watch import watch_claim
from weightwright.runtime.running_plan import Plan
from weightwright.runtime.sparse_maps import LinearMap
from weightwright.runtime.standing import standing, watchers
from weightwright.runtime.table_layer import begin
from weightwright.runtime.watch import guard, guards_of
from weightwright.runtime.weights import DTYPES as DTYPES
from weightwright.runtime.weights import Setting, Weights, has_transformed, is_hooked, is_transformed, part_of

if TYPE_CHECKING:
    from weightwright.export.lens import Export

OnDomain = Literal["raise", "clamp", "ignore"]


class AttentionNetwork(Remembers, Confirms, Weights):
    """A network that runs. `net(x)` takes (..., tokens, features) and returns (..., tokens, outputs).

    on_domain: what happens to inputs outside the certificate's domain: "raise" (DomainError),
    "clamp" (to the nearest point of the domain) or "ignore" (the bound does not hold there).

    The weights are buffers named as in the network (`net.registers`, `net.layers[0].heads[1].W_V`), and they alone are
    what runs: `network`, `save`, exports and `certificate.status` read them back.
    """

    was: Network

    def __init__(self, network: Network, certificate: Certificate | None = None, on_domain: OnDomain = "raise") -> None:
        self._build(network, certificate, on_domain, trainable=False)
        if certificate is not None and certificate.network != self.digest():
            raise CertificateError("the certificate is about another network than the one that is given with it")

    def _build(self, network: Network, said: Certificate | None, on_domain: OnDomain, trainable: bool) -> None:
        super().__init__(network)
        if on_domain not in ("raise", "clamp", "ignore"):
            raise ValueError(f"on_domain must be 'raise', 'clamp' or 'ignore', not {on_domain!r}")
        self.certificate = said
        self.on_domain = on_domain
        self.was_compiled = False  # whether torch.compile made code of its own for it, which nobody has looked at
        self.about: Any = None  # what a construction says of itself
        self._edited: tuple[Network, str] | None = None  # what was read back last, and its digest
        self._first: tuple[Network, str] | None = None  # the network that this was built from, and its digest
        setting = Setting(network.dtype, trainable, self)
        self.keep(network.dtype, trainable, "registers")
        self.embed = LinearMap(network.embed, setting)
        self.layers = nn.ModuleList(build_layer(layer, setting) for layer in network.layers)
        self.read = LinearMap(network.read, setting)
        if said is not None and said.watched:
            if on_domain == "clamp":
                raise ValueError("on_domain='clamp': an algorithm's states cannot be clamped; 'raise' or 'ignore'")
            watch_claim(self, said.against)
        self.watchers = watchers(self)

    __setattr__ = nn.Module.__setattr__  # only the registers are weights of this module itself

    @property
    def handed_registers(self) -> bool:
        """Whether somebody holds the registers and may write to them."""
        return self.handed

    @property
    def network(self) -> Network:
        """The network that runs, read back from the weights: the same object as long as nothing changes.

        LawError where what was changed makes it no network, WeightwrightError for layers that are none of ours."""
        now: Network = self.read_back()
        if now is self.was:
            return now
        found = network_digest(now)
        if self._edited is None or self._edited[1] != found:
            self._edited = now, found
        return self._edited[0]

    def digest(self) -> str:
        """What a certificate calls the network by that runs now."""
        now = self.network
        if now is not self.was:
            return cast(tuple[Network, str], self._edited)[1]
        if self._first is None or self._first[0] is not now:
            self._first = now, network_digest(now)
        return self._first[1]

    def _own_parts(self) -> None:
        """A layer or head that was taken from another network reads the registers of this one."""
        for module in self.modules():
            if isinstance(module, Weights):
                module.belong_to(self)

    def parts(self) -> dict[str, Any]:
        """What the network is made of, as it is now."""
        self._own_parts()
        embed, read = (part_of(getattr(self, name), (LinearMap,), name) for name in ("embed", "read"))
        return {"embed": embed, "registers": self.array("registers"), "layers": read_layers(self.layers), "read": read}

    @property
    def certificate(self) -> Certificate | None:
        """What is known of this module as it is now: CONDITIONAL or EDITED where it is not as the checker saw it."""
        return None if self.said is None else standing(self, self.said)

    @certificate.setter
    def certificate(self, said: Certificate | None) -> None:
        self.said = said  # as it was given; `certificate` says what is left of it
        self._domain: Domain | None = None
        zones_of_arguments = said.against.zones if said is not None and isinstance(said.against, Composite) else ()
        self._dead_arguments = ", ".join(f"{lo!r} to {hi!r}" for lo, hi in zones_of_arguments)  # "": there are none
        if said is not None:
            lo, hi = torch.tensor(said.domain.lo), torch.tensor(said.domain.hi)
            zones = torch.tensor(said.dead_zones, dtype=torch.float64).reshape(-1, 2)
            self._domain = Domain(lo, hi, zones, self.was.inputs, not said.watched)

    def check(self) -> Certificate:
        """Have the independent checker prove the network as it is now, and return its certificate.

        The claim is checked with the weights that run, and where it does not hold, with larger terms. The bound that
        holds becomes this network's; where none does the status stays EDITED, the bound is infinite and `why` is what
        the checker said. CertificateError if there was no certificate, or one that claims nothing.
        """
        from weightwright.recheck import recheck  # needs python-flint

        return recheck(self)

    def trainable(self) -> AttentionNetwork:
        """The same network with its weights as parameters, registers included, for fine-tuning: without a certificate.

        `load_state_dict` takes the parameters back, and `check` says what bound they have.
        """
        free = AttentionNetwork.__new__(AttentionNetwork)
        free._build(self.network, None, "raise", trainable=True)
        return free.to(self.device)

    @property
    def dtype(self) -> torch.dtype:
        """What the network runs in."""
        return DTYPES[self.was.dtype]

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self.matrix("registers").device

    @property
    def cost(self) -> Cost:
        """Counts of what is stored and computed; work for one token, or for the number of tokens that is fixed.

        >>> import weightwright as ww
        >>> net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-6)
        >>> net.cost.heads, net.cost.anchors == len(net.network.registers)
        (1, True)
        """
        return cost(self.network)

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            self.was_compiled = True
        begun = None if torch.compiler.is_compiling() else begin(self, x)
        x = self._admitted(x)
        if torch.compiler.is_compiling() or not x.is_cuda:
            return self._run(x)
        later = None if self.on_domain != "raise" or is_transformed(x) else self._domain
        if begun is not None and begun[0] is self._planned():
            _, y, outside = begun
        else:
            outside = None if later is None else later.look(x)
            y = self._run(x)
        if later is not None:
            later.refuse(x, outside)
        return y

    def _planned(self) -> Plan | None:
        """How to run as things are now; None where somebody looks at the parts."""
        plan: Plan | None = self.__dict__.get("_plan")
        if plan is None or torch_modules._has_any_global_hook() or not plan.holds():
            if any(is_hooked(part) or has_transformed(part) for part in self.modules()):
                return None
            self._own_parts()
            plan = self.__dict__["_plan"] = Plan(self)
        return plan

    def _run(self, x: Tensor) -> Tensor:
        """Prompted networks by pieces, others by their plan, all of them part by part where somebody looks at these."""
        if (found := run_by_pieces(self, x)) is not None:
            return found
        plan = None if is_transformed(x) or torch.compiler.is_compiling() else self._planned()
        if plan is not None:
            return plan.run(x)
        self._own_parts()
        X = self.embed(x)  # (B, n, d), in one piece: a hook sees the batch as it was given
        for layer in self.layers:
            X = layer(X)
        return self.read(X)  # (B, n, outputs)

    def run_anywhere(self, x: Tensor) -> Tensor:
        """The output, whatever `on_domain` says: also outside the domain and in dead zones, where nothing is proven."""
        x = self._in_dtype(x)
        return self._run(x if self._domain is None else self._domain.admit(x, "ignore"))

    def _in_dtype(self, x: Tensor) -> Tensor:
        """The input in the network's dtype, or an error that says what is wrong."""
        refuse_misfit(x, len(self.was.inputs), self.was.tokens)
        dtype = self.dtype
        if x.is_complex() or x.dtype == torch.bool or torch.promote_types(x.dtype, dtype) != dtype:
            raise TypeError(f"x is {x.dtype}, which {dtype} does not hold exactly; cast it yourself")
        given, x = x, x.to(dtype)
        if not given.is_floating_point() and not torch.equal(x.to(given.dtype), given):
            raise TypeError(f"x holds whole numbers that {dtype} does not hold exactly; cast it yourself")
        return x

    def _admitted(self, x: Tensor) -> Tensor:
        """The input in the network's dtype and inside the domain, or an error that says what is wrong."""
        x = self._in_dtype(x)
        x = x if self._domain is None else self._domain.admit(x, self.on_domain)
        if self._dead_arguments and self.on_domain != "ignore":
            if torch.compiler.is_compiling() or is_transformed(x):
                return cast(Tensor, refuse_uncompared(x, self._dead_arguments))
            from weightwright.adversary.predictions import refuse_dead_arguments

            refuse_dead_arguments(self, x)
        return x

    def save(self, path: str | os.PathLike[str]) -> None:
        """Weights, structure and certificate in one safetensors file: the weights that run. A network that was edited
        is saved without a certificate; `check` may give it one. Hooks are not saved."""
        write(check_writable(path, ".safetensors"), *self.stored())

    def stored(self) -> tuple[Network, Certificate | None]:
        """What a file holds: no certificate where it is about another network."""
        about_it = self.said is not None and self.said.network == self.digest()
        return self.network, self.said if about_it else None

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle vouches for itself no more than a file does: it comes back UNCHECKED, or MEASURED as it says."""
        said, trainable = self.said, bool(self._parameters)
        if said is not None:
            said = as_told(said) if said.measured is not None else replace(said, status="UNCHECKED", why="")
        return _unpickle, (self.network, said, self.on_domain, self.about, guards_of(self), trainable)

    def __deepcopy__(self, memo: dict[int, Any]) -> AttentionNetwork:
        """With everything that was changed; the status is found anew, from the copy's own weights."""
        copied = memo[id(self)] = AttentionNetwork.__new__(AttentionNetwork)
        copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))  # without code that was compiled for this one
        copied.was_compiled = False
        copied.__dict__.pop("_plan", None)
        return copied

    def run_with_cache(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and what every part of the network returned: `L0H3` is what head 3 of layer 0
        adds to the stream, `L0` the stream after the layer, `embed` the stream before the first.

        >>> import torch, weightwright as ww
        >>> net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-3)
        >>> y, parts = net.run_with_cache(torch.zeros(2, 1, dtype=torch.float64))
        >>> {name: tuple(part.shape) for name, part in parts.items()}
        {'embed': (2, 6), 'L0H0': (2, 6), 'L0': (2, 6), 'read': (2, 1)}
        """
        return run_with_cache(self, x)

    def run_with_hooks(self, x: Tensor, hooks: Mapping[str, Replacement]) -> Tensor:
        """The output with something else in the place of what some parts return.

        hooks: for the name of a part, as `run_with_cache` has them, a tensor or a number that takes the place of what
        it returns, or a function of that. 0 ablates a head; the cache of another input patches that run into this one.

        >>> import torch, weightwright as ww
        >>> net = ww.approximate("tanh(x)", domain=(-1, 1), tol=1e-3)
        >>> float(net.run_with_hooks(torch.ones(1, 1), {"L0H0": 0.0}))
        0.0
        """
        return run_with_hooks(self, x, hooks)

    def circuit(self) -> Circuit:
        """The network taken apart: nodes with what each really adds, and edges with their coefficients, as data.

        Of the weights that run now; what a certificate says is in it unless they were edited.
        """
        return take_apart(self.network, self.certificate)

    def predicted_effect(
        self, head: HeadName | Sequence[HeadName], x: Tensor, ablation: Ablation = "zero"
    ) -> PredictedEffect:
        """What the outputs change by, (..., tokens, outputs), if heads return something else, from the circuit alone.

        head: its name in `circuit()` ("L0H3"), (layer, number) or its role; several heads are ablated together.
        ablation: "zero", "mean" (over all of x), or the number or numbers that the head returns instead.
        In float64, whatever the dtype. The result says which heads leave the ranges that their tables are proven on.

        >>> import torch, weightwright as ww
        >>> net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-6)
        >>> effect = net.predicted_effect("L0H0", torch.tensor([[0.3]]))
        >>> effect, round(float(effect.change[0, 0]), 3)  # minus sin(1.5)
        (PredictedEffect(change up to 0.9975, inside all proven ranges), -0.997)
        """
        refuse_misfit(x, len(self.was.inputs), self.was.tokens)
        return predict_effect(self.circuit(), head, x.detach().double().cpu().numpy(), ablation)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the network, layers and heads, to a .png, .svg or .pdf."""
        from weightwright.report.drawing.draw import draw_network  # needs weightwright[plot]

        draw_network(self, path)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Plot what it computes, and its error under the bound, to a .png, .svg or .pdf: for one or two variables."""
        from weightwright.report.plot import plot_network  # needs weightwright[plot]

        plot_network(self, path)

    def certifies(self, x: Tensor) -> Tensor:
        """Which predictions are proven to be those of what the network computes: (..., tokens), truth values.

        With several outputs a prediction is the largest of them, and it is proven if it leads all others by more than
        twice the bound; with one output it is the sign, proven if the output is farther from 0 than the bound. False
        where nothing is proven of an input: outside the domain, in dead zones, after an edit, where nobody has checked
        the claim, where errors were only measured or bounded in an L_p norm, of algorithms that run several passes, and
        where on_domain="ignore" switched off what the claim needs to be watched.

        >>> import torch, weightwright as ww
        >>> net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-3)
        >>> net.certifies(torch.tensor([[0.0], [0.3]], dtype=torch.float64))
        tensor([False,  True])
        """
        from weightwright.adversary.predictions import certified_predictions

        return certified_predictions(self, x)

    def to_onnx(self, path: str | os.PathLike[str]) -> float:
        """Write an ONNX file; returns its largest difference from this module on random inputs."""
        from weightwright.export.onnx import to_onnx  # needs weightwright[onnx]

        return to_onnx(self, path)

    def to_transformer_lens(self, tokens: int = 1024) -> Export:
        """A TransformerLens model, for native networks.
        tokens: data tokens that there is room for."""
        from weightwright.export.lens import to_transformer_lens  # needs weightwright[lens]

        return to_transformer_lens(self, tokens)

    def to_torch(self, path: str | os.PathLike[str]) -> float:
        """Write a plain torch file (.py) and its weights (.safetensors); returns the largest difference."""
        from weightwright.export.torch_source import to_torch

        return to_torch(self, path)

    def __repr__(self) -> str:
        """One line; the modules inside are `net.children()`."""
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        said = self.certificate
        return "no certificate" if said is None else summary_in_words(said, bound_in_short(said))


def _unpickle(
    network: Network, said: Certificate | None, on_domain: OnDomain, about: Any, guards: Any, trainable: bool
) -> AttentionNetwork:
    net = AttentionNetwork.__new__(AttentionNetwork)
    net._build(network, said, on_domain, trainable)
    net.about = about
    guard(net, guards)
    return net
