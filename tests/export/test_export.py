"""Every format against the interpreter, on inputs that the exporters did not draw; every refusal; whole files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from support.forging import altered, array_places
from support.networks import attending, by_hand, linear
from support.running import reference_outputs
from support.zoo import NAMES, NONE, ZOO, compiled

import weightwright as ww
from weightwright.claims.certificate import round_up
from weightwright.errors import install_line
from weightwright.export import compare, lens
from weightwright.export import onnx as onnx_file
from weightwright.export import torch_source as torch_file
from weightwright.heads.mix import mix
from weightwright.network import Attention, Loop, Network, Total

Run = Callable[[np.ndarray], np.ndarray]
TOLERANCE = {"float64": 1e-10, "float32": 1e-5, "bfloat16": 0.5}
#: What a plain Transformer computes without change; the other native ones do not hide what their heads do not see.
PLAIN = ("constant", "windowed", "sees all", "sees earlier", "sees everything")
LEAKING = ("compiled", "sees some registers")


def in_dtype(network: Network, dtype: str) -> Network:
    """The network with every weight rounded."""

    def rounded(weights: np.ndarray) -> np.ndarray:
        return weights if weights.dtype == bool else torch.tensor(weights).to(getattr(torch, dtype)).double().numpy()

    for path in array_places(network):
        network = altered(network, path, rounded)
    return replace(network, dtype=dtype)


def looping() -> Network:
    """The same causal layer three times: native, and TransformerLens has three layers."""
    rng = np.random.default_rng(7)
    embed = linear(NAMES, rng.normal(size=(2, 3)), rng.normal(size=(1, 3)))
    W_Q, W_K, W_V, W_O = (rng.normal(size=size) for size in ((3, 2), (3, 2), (3, 2), (2, 3)))
    loop = Loop(
        (attending(NAMES, W_Q, W_K, W_V, W_O / 8, 1.5, data="earlier", role="random"),), 3
    )  # the stream stays near 1
    return by_hand(("a", "b"), embed, (loop,), ("y",), registers=NONE)


def odd_ends(*more: Attention) -> Network:
    """An attention layer without heads, and a loop around nothing."""
    embed = linear(("u",), [[1.0]])
    layers = (Attention(("u",), ()), Loop((), 2), *more)
    return by_hand(("a",), embed, layers, linear(("v",), [[1.0]], [[2.0]]))


def summing() -> Network:
    """Three tokens in, their sum out."""
    read = linear(("s",), np.ones((1, 1)), tokens=Total(1))
    return by_hand(("a",), linear(("u",), [[2.0]]), (), read, tokens=3)


EVERY = ZOO | {"looping": looping, "odd ends": odd_ends, "summing": summing}


def run_onnx(path: Path) -> Run:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def run_torch(path: Path) -> Run:
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda x: module.Network()(torch.from_numpy(x)).numpy()


FILES = {"onnx": run_onnx, "py": run_torch}


def export(net: ww.AttentionNetwork, path: Path) -> float:
    return net.to_onnx(path) if path.suffix == ".onnx" else net.to_torch(path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("name", EVERY)
def test_every_network_as_a_file(name: str, kind: str, dtype: str, tmp_path: Path) -> None:
    """Reloaded, for several batch sizes and token counts, it computes what the interpreter defines."""
    network, path = in_dtype(EVERY[name](), dtype), tmp_path / f"net.{kind}"
    assert 0 <= export(ww.AttentionNetwork(network), path) <= TOLERANCE[dtype]
    run, rng = FILES[kind](path), np.random.default_rng(11)
    for batch, tokens in ((1, 1), (3, 6), (2, 40)):
        X = rng.normal(size=(batch, network.tokens or tokens, len(network.inputs))).astype(dtype)
        Y = run(X)
        assert Y.dtype == X.dtype
        reference = reference_outputs(network, X)
        assert Y.shape == reference.shape
        assert np.abs(Y - reference).max() <= 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("kind", FILES)
def test_no_heads_and_no_residual_is_zero(kind: str, tmp_path: Path) -> None:
    network, path = odd_ends(Attention(("u",), (), residual=False)), tmp_path / f"net.{kind}"
    assert export(ww.AttentionNetwork(network), path) == 0
    assert np.array_equal(FILES[kind](path)(np.ones((2, 3, 1))), np.full((2, 3, 1), 2.0))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*PLAIN, "looping"])
def test_plain_networks_as_transformer_lens(name: str, dtype: str) -> None:
    network = in_dtype(EVERY[name](), dtype)
    model = ww.AttentionNetwork(network).to_transformer_lens()
    assert model.difference <= TOLERANCE[dtype]
    rng = np.random.default_rng(12)
    for batch in ((), (3,), (2, 2)):
        X = rng.normal(size=(*batch, network.tokens or 9, len(network.inputs))).astype(dtype)
        Y, reference = model.run(torch.from_numpy(X)), reference_outputs(network, X)
        assert Y.dtype == getattr(torch, dtype)
        assert Y.shape == reference.shape
        assert np.abs(Y.numpy() - reference).max() <= 2 * TOLERANCE[dtype]


def test_sine_in_every_format(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    x = np.random.default_rng(13).uniform(-1, 1, (4, 50, 1))
    expected = sine(torch.from_numpy(x)).numpy()
    model = sine.to_transformer_lens()
    assert max(sine.to_onnx(tmp_path / "s.onnx"), sine.to_torch(tmp_path / "s.py"), model.difference) <= 1e-10
    for got in (run_onnx(tmp_path / "s.onnx")(x), run_torch(tmp_path / "s.py")(x), model.run(torch.from_numpy(x))):
        assert np.abs(np.asarray(got) - expected).max() <= 1e-10


def test_sums_over_tokens_in_a_plain_transformer() -> None:
    """A position code, a register, two heads that look at all data tokens."""
    R = np.random.default_rng(14).normal(size=(5, 5))
    model = ww.AttentionNetwork(mix(R, np.eye(2))).to_transformer_lens()
    X = np.random.default_rng(15).normal(size=(5, 2))
    assert model.model.cfg.attention_dir == "bidirectional"
    assert np.abs(model.run(torch.from_numpy(X)).numpy() - R @ X).max() <= 1e-10


# --- TransformerLens ---


def test_the_pattern_of_a_named_head(sine: ww.AttentionNetwork) -> None:
    """Read from the cache under the head's role: rows sum to 1, and the softmax of the scores by hand."""
    model, network = sine.to_transformer_lens(), sine.network
    (role,) = model.heads
    assert role == next(network.heads).role
    layer, head = model.heads[role]
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    _, cache = model.model.run_with_cache(model.residual(x), start_at_layer=0)
    r = len(network.registers)
    pattern = cache["pattern", layer][0, head].numpy()  # (r + 7, r + 7)
    assert np.abs(pattern.sum(-1) - 1).max() <= 1e-14
    h = next(network.heads)
    data = x.numpy() @ network.embed.terms[0].A + network.embed.C
    scores = h.beta * (data @ h.W_Q) @ (network.registers @ h.W_K).T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert np.abs(pattern[r:, :r] - weights / weights.sum(-1, keepdims=True)).max() <= 1e-14
    assert pattern[r:, r:].max() <= 1e-300  # hidden keys


def test_the_cache_holds_the_stream_and_the_logits_are_the_outputs(sine: ww.AttentionNetwork) -> None:
    model, network = sine.to_transformer_lens(), sine.network
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    logits, cache = model.model.run_with_cache(model.residual(x), start_at_layer=0)
    stream = cache["blocks.0.hook_resid_post"][0, len(network.registers) :]
    column = network.embed.coordinates.index(network.outputs[0])
    assert torch.equal(stream[:, column], logits[0, len(network.registers) :, 0])
    assert torch.equal(stream[:, :1], x)
    assert (stream[:, [column]] - sine(x)).abs().max() <= 1e-12


def test_loops_are_unrolled_and_roles_numbered() -> None:
    model = ww.AttentionNetwork(looping()).to_transformer_lens()
    assert model.heads == {"random": (0, 0), "random (2)": (1, 0), "random (3)": (2, 0)}
    assert model.model.cfg.n_layers == 3
    assert model.model.cfg.attention_dir == "causal"


def test_scores_are_scaled_back_exactly() -> None:
    """Queries of size 5 need d_head 16; the factor 4 in W_Q is exact, so the scores are the network's own."""
    network = mix(np.ones((5, 5)), np.eye(1))
    model = ww.AttentionNetwork(network).to_transformer_lens().model
    assert model.cfg.d_head == 16
    for index, head in enumerate(network.heads):
        assert np.array_equal(model.W_Q[0, index, :, :5].numpy(), 4 * head.beta * head.W_Q)
        assert np.array_equal(model.W_K[0, index, :, :5].numpy(), head.W_K)
        assert not model.W_Q[0, index, :, 5:].any()


def test_room_for_tokens(sine: ww.AttentionNetwork) -> None:
    model = sine.to_transformer_lens(tokens=100)
    assert model.run(torch.zeros(100, 1, dtype=torch.float64)).shape == (100, 1)
    with pytest.raises(ValueError, match="exceeds n_ctx"):
        model.run(torch.zeros(101, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"shape \(..., tokens, 1\), not \(5, 2\)"):
        model.run(torch.zeros(5, 2, dtype=torch.float64))
    fixed = ww.AttentionNetwork(mix(np.eye(4), np.eye(1))).to_transformer_lens()
    with pytest.raises(ValueError, match=r"shape \(..., 4, 1\), not \(1, 1\)"):
        fixed.run(torch.zeros(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("name", [name for name in ZOO if name not in (*PLAIN, *LEAKING)])
def test_networks_that_are_not_native_are_refused(name: str) -> None:
    network = ZOO[name]()
    with pytest.raises(ww.UnsupportedOperation) as refusal:
        ww.AttentionNetwork(network).to_transformer_lens()
    assert network.obstacles
    for obstacle in network.obstacles:
        assert obstacle in str(refusal.value)


@pytest.mark.parametrize("name", LEAKING)
def test_networks_that_leak_are_refused(name: str) -> None:
    network = ZOO[name]()
    assert network.native
    role = next(network.heads).role
    with pytest.raises(ww.UnsupportedOperation, match=f"differs by .*'{role}' sees registers .*score far below"):
        ww.AttentionNetwork(network).to_transformer_lens()


def test_a_small_leak_is_refused_in_every_dtype() -> None:
    """Data keys that score only 10 below the registers: 1e-5 of the weight, less than float32 could tell."""
    network = compiled()
    for dtype in ("float64", "float32", "bfloat16"):
        for hidden, plain in ((-10.0, False), (-1000.0, True)):
            net = ww.AttentionNetwork(in_dtype(hiding(network, hidden), dtype))
            if plain:
                assert net.to_transformer_lens().difference <= TOLERANCE[dtype]
            else:
                with pytest.raises(ww.UnsupportedOperation, match="differs by"):
                    net.to_transformer_lens()


def hiding(network: Network, score: float) -> Network:
    """`compiled` with a query that is always 1 and data keys that score so much; the registers' keys score 0."""
    names = ("x", "data", "value", "y")
    registers = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
    W_Q, W_K, W_V, W_O = np.zeros((4, 1)), np.zeros((4, 1)), np.zeros((4, 1)), np.zeros((1, 4))
    W_Q[1, 0], W_K[1, 0], W_V[2, 0], W_O[0, 3] = 1.0, score, 1.0, 1.0
    role = next(network.heads).role
    layer = attending(names, W_Q, W_K, W_V, W_O, registers=(0, 2), data="none", role=role)
    embed = linear(names, np.eye(1, 4), np.eye(1, 4, 1))
    return by_hand(("x",), embed, (layer,), ("y",), registers=registers)


# --- files ---


def test_bfloat16(tmp_path: Path) -> None:
    net = ww.AttentionNetwork(in_dtype(ZOO["sees all"](), "bfloat16"))
    with pytest.raises(ww.UnsupportedOperation, match="bfloat16"):
        net.to_onnx(tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
    assert net.to_torch(tmp_path / "net.py") <= TOLERANCE["bfloat16"]


def test_the_torch_file_needs_no_weightwright(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    sine.to_torch(tmp_path / "sine.py")
    program = (
        "import sys; sys.modules['weightwright'] = None\n"
        "import sine, torch\n"
        "print(repr(sine.Network()(torch.tensor([[0.25], [-1.0]], dtype=torch.float64)).tolist()))\n"
        "import weightwright"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "import of weightwright halted" in done.stderr
    expected = sine(torch.tensor([[0.25], [-1.0]], dtype=torch.float64))
    assert (torch.tensor(eval(done.stdout), dtype=torch.float64) - expected).abs().max() <= 1e-12


def test_the_torch_file_reads_well(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    sine.to_torch(tmp_path / "sine.py")
    text, p = (tmp_path / "sine.py").read_text(), len(sine.network.registers)
    for phrase in (
        "formula     sin(5*x)",
        "domain      x[0] in [-1.0, 1.0]",
        f"bound       {round_up(sine.certificate.bound)} on |network - formula|",
        "status      PROVEN when this was written",
        f"{next(sine.network.heads).role}; sees registers 0 to {p - 1} and no data token",
        "queries from x[0], data; keys from data, key, offset; values from value; writes sin(5*x)",
        f"weights = torch.softmax(Q @ K.mT, -1)  # (..., n, {p})",
    ):
        assert phrase in text
    assert "import weightwright" not in text


def test_the_torch_weights_are_the_certified_ones(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    sine.to_torch(tmp_path / "sine.py")
    assert ww.check(tmp_path / "sine.safetensors").status == "PROVEN"
    ww.AttentionNetwork(compiled()).to_torch(tmp_path / "other.py")
    os.replace(tmp_path / "other.safetensors", tmp_path / "sine.safetensors")
    with pytest.raises(ValueError, match="holds other weights"):
        run_torch(tmp_path / "sine.py")(np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"net\.txt: the name must end in \.py; write .*net\.py"):
        sine.to_torch(tmp_path / "net.txt")


NASTY = '"""\nimport os; os._exit(7)\r# \\ \ud800 \u2028 %s {0}'


@pytest.mark.parametrize("kind", FILES)
def test_roles_and_names_are_text_and_never_code(kind: str, tmp_path: Path) -> None:
    network = compiled()
    (layer,), names = network.layers, ("x", NASTY, "y")
    head = replace(layer.heads[0], role=NASTY)
    nasty = replace(
        network,
        embed=replace(network.embed, coordinates=names),
        layers=(Attention(names, (head,)),),
        read=replace(network.read, coordinates=(NASTY,)),
    )
    path = tmp_path / f"net.{kind}"
    assert export(ww.AttentionNetwork(nasty), path) <= 1e-10
    X = np.random.default_rng(16).normal(size=(2, 3, 1))
    assert np.abs(FILES[kind](path)(X) - reference_outputs(network, X)).max() <= 1e-10


def test_what_the_onnx_file_says(sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    sine.to_onnx(tmp_path / "sine.onnx")
    model = onnx.load(tmp_path / "sine.onnx")
    facts = {prop.key: prop.value for prop in model.metadata_props}
    assert facts["formula"] == "sin(5*x)"
    assert facts["status"] == (
        "CONDITIONAL when this was written: assuming that what runs this file rounds as the model says"
    )
    assert facts["outputs"] == '["sin(5*x)"]'
    role = next(sine.network.heads).role
    assert f"layer_0/head_0:{role}/W_Q" in {weight.name for weight in model.graph.initializer}
    assert f"layer_0/head_0:{role}/weights" in {node.name for node in model.graph.node}
    axes = [axis.dim_param or axis.dim_value for axis in model.graph.input[0].type.tensor_type.shape.dim]
    assert axes == ["batch", "tokens", 1]


def test_a_fixed_number_of_tokens_stays_fixed(tmp_path: Path) -> None:
    ww.AttentionNetwork(summing()).to_onnx(tmp_path / "net.onnx")
    graph = onnx.load(tmp_path / "net.onnx").graph
    for value, shape in ((graph.input[0], ["batch", 3, 1]), (graph.output[0], ["batch", 1, 1])):
        assert [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim] == shape


def test_weights_of_a_loop_stand_in_the_file_once(tmp_path: Path) -> None:
    ww.AttentionNetwork(looping()).to_onnx(tmp_path / "net.onnx")
    graph = onnx.load(tmp_path / "net.onnx").graph
    assert sum(weight.name.endswith("W_Q") for weight in graph.initializer) == 1
    assert sum(node.op_type == "Softmax" for node in graph.node) == 3


@pytest.mark.parametrize("kind", FILES)
def test_equal_networks_give_equal_bytes(kind: str, tmp_path: Path) -> None:
    for name in ("looped", "masked, with registers"):
        contents = []
        for _ in range(2):
            export(ww.AttentionNetwork(ZOO[name]()), tmp_path / f"net.{kind}")
            contents.append([path.read_bytes() for path in sorted(tmp_path.iterdir())])
        assert contents[0] == contents[1]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("fault", ["comparing", "moving"])
def test_files_are_whole_or_absent(kind: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    (tmp_path / f"net.{kind}").write_text("what was there before")
    if fault == "moving":
        monkeypatch.setattr("weightwright.output_files.os.replace", fail)
    else:
        monkeypatch.setattr({"onnx": onnx_file, "py": torch_file}[kind], "difference", fail)
    with pytest.raises(OSError, match="no space left"):
        export(ww.AttentionNetwork(compiled()), tmp_path / f"net.{kind}")
    assert [path.name for path in tmp_path.iterdir()] == [f"net.{kind}"]
    assert (tmp_path / f"net.{kind}").read_text() == "what was there before"


# --- extras, and the comparison itself ---


@pytest.mark.parametrize(
    ("missing", "home", "method", "extra"),
    [
        ("onnx", "onnx", "to_onnx", "onnx"),
        ("onnxruntime", "onnx", "to_onnx", "onnx"),
        ("transformer_lens.config", "lens", "to_transformer_lens", "lens"),
    ],
)
def test_missing_extras_are_named(
    missing: str, home: str, method: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"weightwright.export.{home}")
    arguments = [tmp_path / "net.onnx"] if method == "to_onnx" else []
    with pytest.raises(ww.WeightwrightError, match=re.escape(install_line(extra))):
        getattr(ww.AttentionNetwork(compiled()), method)(*arguments)


def test_samples_lie_in_the_domain_and_are_always_the_same() -> None:
    narrow = ww.approximate("x**2", (1, "1.1"), 1e-3)  # 1.1 is no float
    for dtype in ("float64", "float32", "bfloat16"):
        network = in_dtype(narrow.network, dtype)
        net = ww.AttentionNetwork(network, replace(narrow.certificate, network=ww.AttentionNetwork(network).digest()))
        first, again = list(compare.samples(net)), list(compare.samples(net))
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
        for x in first:
            assert x.dtype == getattr(torch, dtype)
            assert ((x.double() >= 1) & (x.double() <= 1.1000000000000001)).all()
        assert len(torch.cat([x.flatten() for x in first]).unique()) > 1


def test_the_difference_is_the_largest_and_never_hides_nan() -> None:
    net = ww.AttentionNetwork(compiled())
    assert compare.difference(net, net) == 0
    assert compare.difference(net, lambda x: net(x) + 0.25) == pytest.approx(0.25)

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = net(x).clone()
        y[(0,) * y.ndim] = float("nan")
        return y

    assert np.isnan(compare.difference(net, broken))
    with pytest.raises(AssertionError, match="became"):
        compare.difference(net, lambda x: net(x)[..., :1, :].sum(-2))


def test_only_a_number_below_the_tolerance_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that came out NaN is a refusal, not a pass."""
    monkeypatch.setattr(lens, "largest", lambda *_: float("nan"))
    with pytest.raises(ww.UnsupportedOperation, match="differs by nan"):
        ww.AttentionNetwork(ZOO["sees all"]()).to_transformer_lens()


#: A network of every kind that `approximate` makes.
MADE = {
    "soft anchors": ("sin(5*x)", {}),
    "two keys": ("tanh(3*x)", {}),
    "one-sided keys": ("abs(x)", {}),
    "two one-sided heads": ("clip(x, -0.5, 0.5)", {}),
    "bends and what is smooth": ("abs(sin(3*x))", {}),
    "a gate": ("relu(x - 0.25)", {"sees": "self"}),
    "a gate of three keys": ("clip(x, -0.5, 0.5)", {"sees": "self"}),
    "a jump": ("sign(x) + x", {"dead_zone": 0.01}),
    "a window": ("sin(20*x)", {"kernel": "anchor"}),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MADE)
def test_everything_that_approximate_makes_leaves_as_it_is(name: str, dtype: str, tmp_path: Path) -> None:
    formula, options = MADE[name]
    net = ww.approximate(formula, (-1, 1), 1e-4, dtype=getattr(torch, dtype), **options)
    x = np.random.default_rng(16).uniform(-1, 1, (3, 17, 1)).astype(dtype)
    expected = net(torch.from_numpy(x)).numpy()
    for path, run in ((tmp_path / "n.onnx", run_onnx), (tmp_path / "n.py", run_torch)):
        assert export(net, path) <= TOLERANCE[dtype]
        assert np.abs(run(path)(x) - expected).max() <= TOLERANCE[dtype]
    if name.startswith("a gate") or (name == "a window" and dtype == "float32"):  # 2e-5 of the weight is left out
        with pytest.raises(ww.UnsupportedOperation, match=r"takes a position code|nearest to the query"):
            net.to_transformer_lens(40)
        return
    model = net.to_transformer_lens(40)  # as many as are asked for, and not more than there is room for
    tail = 1e-6 if name == "a window" else TOLERANCE[dtype]  # a plain Transformer has no window
    assert model.difference <= tail
    assert np.abs(model.run(torch.from_numpy(x)).numpy() - expected).max() <= tail
    role = next(net.network.heads).role
    _, cache = model.model.run_with_cache(model.residual(torch.from_numpy(x)), start_at_layer=0)
    layer, head = model.heads[role]
    pattern = cache["pattern", layer][:, head]
    assert torch.allclose(pattern.sum(-1), torch.ones_like(pattern[..., 0]))


def test_room_for_no_token_is_refused(sine: ww.AttentionNetwork) -> None:
    with pytest.raises(ValueError, match="tokens must be a whole number of at least 1, not 0"):
        sine.to_transformer_lens(0)
