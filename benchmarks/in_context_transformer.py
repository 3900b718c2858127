"""A small Transformer, trained here to learn linear regression in context: what constructed networks are set beside.

python benchmarks/in_context_transformer.py CHECKPOINT          train (about 20 minutes of one core), and write
                                                                benchmarks/results/in_context_transformer.json
python benchmarks/in_context_transformer.py CHECKPOINT --steps 200 --results OTHER.json

Prompts are interleaved as Garg et al. (2022) write them: x_1, y_1, x_2, y_2, ..., a causal mask, and the prediction
for x_i is read off its token. The loss is the mean squared error of the predictions at every x. Settings, the
figures of the training and the fingerprint of the weights are committed, the checkpoint is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weightwright.papers.evaluation.regression_tasks import RegressionTask

RESULTS = Path(__file__).parent / "results" / "in_context_transformer.json"
#: Steps between two lines of the training's figures.
EVERY = 250


@dataclass(frozen=True)
class Settings:
    """What is trained, on what, and how long."""

    features: int = 5
    points: int = 21
    layers: int = 4
    width: int = 64
    heads: int = 4
    batch: int = 64
    steps: int = 20_000
    rate: float = 1e-3  # the largest learning rate of Adam, after the warm-up; it falls to 0 as a cosine
    warm: int = 500  # steps of the warm-up
    seed: int = 0
    seconds: float = 1200.0  # of the processor: training ends early where they are over


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each after a layer norm and added to the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, tokens, width)
        parts = self.qkv(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)  # (B, heads, tokens, width/heads)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class InContextTransformer(nn.Module):
    """A decoder of interleaved prompts: a prediction at every x, from the examples before it."""

    name = "trained Transformer"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings, width = settings, settings.width
        self.read_in = nn.Linear(settings.features, width)
        self.places = nn.Parameter(0.02 * torch.randn(2 * settings.points, width))
        self.blocks = nn.Sequential(*(Block(width, settings.heads) for _ in range(settings.layers)))
        self.read_out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
        """(B, n, d), (B, n) -> (B, n)."""
        targets = nn.functional.pad(ys.unsqueeze(2), (0, xs.shape[2] - 1))  # y stands in the first number of its token
        tokens = torch.stack([xs, targets], dim=2).flatten(1, 2)  # (B, 2n, d)
        stream = self.read_in(tokens) + self.places[: tokens.shape[1]]
        return self.read_out(self.blocks(stream)[:, ::2]).squeeze(2)

    def __call__(self, xs: Any, ys: Any, inds: Any = None) -> torch.Tensor:
        """As the usual evaluation calls a model: the predictions at the positions `inds`, all without."""
        found: torch.Tensor = super().__call__(xs.to(self.places.dtype), ys.to(self.places.dtype))
        return found.to(xs.dtype) if inds is None else found[:, list(inds)].to(xs.dtype)


def train(settings: Settings) -> tuple[InContextTransformer, dict[str, Any]]:
    """The trained model, and what came out on the way: the loss divided by d, every EVERY steps."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    task = RegressionTask(settings.features, settings.points)
    model, rng = InContextTransformer(settings), torch.Generator().manual_seed(settings.seed + 1)
    adam = torch.optim.Adam(model.parameters())
    start, lines, recent, done = time.process_time(), [], [], 0
    while done < settings.steps:
        spent = time.process_time() - start
        progress = max(done / settings.steps, spent / settings.seconds)
        if progress >= 1:
            break
        rate = settings.rate * min(1.0, (done + 1) / settings.warm) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in adam.param_groups:
            group["lr"] = rate
        xs, ys = task.sample(settings.batch, rng, torch.float32)
        loss = (model(xs, ys) - ys).square().mean()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        recent.append(loss.item() / settings.features)
        done += 1
        if done % EVERY == 0 or done == settings.steps:
            lines.append({"step": done, "loss / d": round(sum(recent) / len(recent), 6)})
            print(f"step {done}: loss / d {lines[-1]['loss / d']:.5f}, {time.process_time() - start:.0f} s", flush=True)
            recent = []
    seconds = time.process_time() - start
    figures = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps taken": done,
        "prompts seen": done * settings.batch,
        "seconds of the processor, one thread": round(seconds),
        "training": lines,
    }
    return model.eval(), figures


def fingerprint(model: nn.Module) -> str:
    """The first 16 digits of the SHA-256 of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def load(checkpoint: Path) -> InContextTransformer:
    """A model that this script has trained."""
    stored = torch.load(checkpoint, weights_only=True)
    model = InContextTransformer(Settings(**stored["settings"]))
    model.load_state_dict(stored["weights"])
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="where the weights go")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where settings and figures go")
    parser.add_argument("--steps", type=int, default=Settings.steps, help="of training")
    given = parser.parse_args()
    settings = Settings(steps=given.steps)
    model, figures = train(settings)
    torch.save({"settings": asdict(settings), "weights": model.state_dict()}, given.checkpoint)
    said = {"command": "python " + " ".join(sys.argv), "settings": asdict(settings), **figures}
    given.results.write_text(json.dumps({**said, "fingerprint": fingerprint(model)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
