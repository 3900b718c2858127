"""Adam on many models side by side. The loss is the sum of the models' own: none of them feels the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.training.batched_models import Group
from weightwright.progress import Tell


def squared_error(y: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of every model, over samples and tokens; over the numbers of a token it is summed. (G,)"""
    return (y - target).square().sum(-1).flatten(1).mean(1)


def stack_seeds(drawn: Iterable[tuple[Tensor, ...]], device: str) -> list[Tensor]:
    """What was drawn for each seed, for instance inputs and targets (N, ...), for all seeds: (S, N, ...) each."""
    return [torch.stack(parts).to(device) for parts in zip(*drawn, strict=True)]


def train_models(
    model: nn.Module,
    group: Group,
    inputs: Tensor,
    targets: Tensor,
    unit: Json,
    tell: Tell,
    loss: Callable[[Tensor, Tensor], Tensor] = squared_error,
    watch: Callable[[int], None] | None = None,
) -> list[list[float]]:
    """Train, and return the mean training loss of every epoch, a list for each model.

    model: (G, B, ...) to (G, B, ...).
    group: which models these are.
    inputs, targets: (S, N, ...): N samples for every seed, or (G, N, ...): for every model; each seed shuffles its own.
    unit: has epochs, batch and rate, those of Adam; a last batch that is not full is left out.
    tell: is told the epoch.
    loss: outputs and targets to one number for each model.
    watch: is called after every epoch with its number, from 1.
    """
    N = inputs.shape[1]
    batch, epochs = min(unit["batch"], N), unit["epochs"]
    step = _make_step(model.to(inputs.device), group, inputs, targets, unit["rate"], loss)
    shuffling = [torch.Generator().manual_seed(7_919 * seed + 17) for seed in group.seeds]
    curve: list[Tensor] = []
    for epoch in range(epochs):
        order = torch.stack([torch.randperm(N, generator=generator) for generator in shuffling]).to(inputs.device)
        total = torch.zeros(group.size, device=inputs.device)
        steps = N // batch
        for k in range(steps):
            total += step(order[:, k * batch : (k + 1) * batch])
        curve.append(total / steps)
        tell(f"epoch {epoch + 1} of {epochs}")
        if watch is not None:
            watch(epoch + 1)
    return torch.stack(curve, 1).tolist() if curve else [[] for _ in range(group.size)]


def count_training(unit: Json) -> int:
    """How many of a unit's samples are trained on; the others are held out."""
    return round(unit["train_share"] * unit["samples"])


def train_and_measure(model: nn.Module, group: Group, inputs: Tensor, targets: Tensor, unit: Json, tell: Tell) -> Json:
    """Train on the first samples and measure on the others, (S, N, ...); a number for each model.

    mse: mean squared error; over the numbers of a token it is summed.
    largest: the largest error of a single number.
    curve: training losses of all epochs.
    """
    kept = count_training(unit)
    curve = train_models(model, group, inputs[:, :kept], targets[:, :kept], unit, tell)
    y, wanted = run_in_pieces(model, group, inputs[:, kept:]), group.repeat(targets[:, kept:])
    largest = (y - wanted).abs().flatten(1).amax(1).tolist()
    return {"mse": squared_error(y, wanted).tolist(), "largest": largest, "curve": curve}


def _make_step(
    model: nn.Module,
    group: Group,
    inputs: Tensor,
    targets: Tensor,
    rate: float,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor], Tensor]:
    """What trains once on the samples of an index, (S, B), and returns the loss of every model, (G,)."""
    on_gpu = inputs.is_cuda
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=on_gpu)

    def pick(data: Tensor, index: Tensor) -> Tensor:
        """Samples of (S, N, ...) or (G, N, ...) by each seed's own indices (S, B), for all models: (G, B, ...)."""
        rows = torch.arange(len(data), device=data.device)[:, None]
        return group.repeat(data[rows, index.repeat(len(data) // len(index), 1)])

    def step(index: Tensor) -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        errors = loss(model(pick(inputs, index)), pick(targets, index))
        errors.sum().backward()
        optimiser.step()
        return errors.detach()

    return RecordedStep(step) if on_gpu else step


class RecordedStep:
    """A step of training as one CUDA graph: starting its hundreds of small kernels takes longer than they run. The
    first steps are taken one kernel after the other, so that everything is there that a recording must not make."""

    FIRST = 3

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        self.step, self.taken, self.graph = step, 0, torch.cuda.CUDAGraph()
        self.side = torch.cuda.Stream()

    def __call__(self, index: Tensor) -> Tensor:
        self.taken += 1
        if self.taken <= self.FIRST:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                errors = self.step(index)
            torch.cuda.current_stream().wait_stream(self.side)
            return errors
        if self.taken == self.FIRST + 1:
            self.index = index.clone()
            with torch.cuda.graph(self.graph):
                self.errors = self.step(self.index)
        self.index.copy_(index)
        self.graph.replay()
        return self.errors


@torch.no_grad()
def run_in_pieces(model: nn.Module, group: Group, inputs: Tensor, piece: int = 256) -> Tensor:
    """The model's outputs on (S, N, ...), `piece` samples at a time: (G, N, ...)."""
    return torch.cat([model(group.repeat(inputs[:, k : k + piece])) for k in range(0, inputs.shape[1], piece)], 1)
