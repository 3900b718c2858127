"""Adam on many models side by side. The loss is the sum of the models' own: none of them feels the others.

Where a training stands is kept every minute and when its time is over: the next call goes on from there, and comes out
as if it had never been interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightwright.errors import WeightwrightError
from weightwright.output_files import whole
from weightwright.papers.experiments.machinery.checks import check_training
from weightwright.papers.experiments.machinery.study_units import Json, OutOfTimeError, Worker
from weightwright.papers.experiments.training.batched_models import Group

#: Seconds from one time that the state is kept to the next.
KEPT_EVERY = 60.0
#: Where the schedule "late" begins to lower the rate, as a share of all steps, and what is left of it at the end.
LATE, LEFT = 0.5, 0.01
#: Samples of the training data whose error is measured after the training.
MEASURED = 1000


def squared_error(y: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of every model, over samples and tokens; over the numbers of a token it is summed. (G,)"""
    return (y - target).square().sum(-1).flatten(1).mean(1)


def stack_seeds(drawn: Iterable[tuple[Tensor, ...]], device: str) -> list[Tensor]:
    """What was drawn for each seed, for instance inputs and targets (N, ...), for all seeds: (S, N, ...) each."""
    return [torch.stack(parts).to(device) for parts in zip(*drawn, strict=True)]


def rate_at(unit: Json, done: float) -> float:
    """The rate of Adam after a share of the steps. "late": constant at first, then lower and lower on a line.

    >>> [round(rate_at({"rate": 1.0, "schedule": "late"}, done), 9) for done in (0.0, 0.5, 1.0)]
    [1.0, 1.0, 0.01]
    """
    rate = float(unit["rate"])
    if unit.get("schedule", "constant") == "constant" or done <= LATE:
        return rate
    return rate * (1 - (1 - LEFT) * (done - LATE) / (1 - LATE))


@dataclass
class Trained:
    """What a training came to.

    curve: the mean training loss of every epoch, a list for each model.
    watched: what was looked at after epochs: of each time a number for every model.
    """

    curve: list[list[float]]
    watched: list[list[float]]


def train_models(
    model: nn.Module,
    group: Group,
    inputs: Tensor,
    targets: Tensor,
    unit: Json,
    worker: Worker,
    loss: Callable[[Tensor, Tensor], Tensor] = squared_error,
    watch: Callable[[int], list[float] | None] = lambda epoch: None,
    stage: str = "model",
) -> Trained:
    """Train from where an earlier call was interrupted, or from the start.

    model: (G, B, ...) to (G, B, ...).
    group: which models these are.
    inputs, targets: (G, N, ...): N samples for every model, which shuffles its own.
    unit: has epochs, batch, rate and schedule, those of Adam; `share`: of the steps that are taken, 1 if it is not
        there; `clip`: the longest gradient of a model. A last batch that is not full is left out.
    worker: is told the epoch, and says where the state is kept and when to stop (OutOfTimeError).
    loss: outputs and targets to one number for each model.
    watch: is called after every epoch with its number, from 1; what it returns is kept.
    stage: tells the trainings of a unit apart.
    """
    N = inputs.shape[1]
    batch = min(unit["batch"], N)
    of_epoch = N // batch
    total = max(1, round(unit.get("share", 1.0) * unit["epochs"] * of_epoch)) if unit["epochs"] else 0
    optimiser = _Optimiser(model.to(inputs.device), unit, inputs.is_cuda)
    shuffling = [torch.Generator().manual_seed(7_919 * seed + 17) for seed in group.seeds]
    curve: list[Tensor] = []
    watched: list[list[float]] = []
    path = worker.state_path(stage)
    if path is not None and path.exists():
        state = _read_state(path, worker.digest, inputs.device)
        model.load_state_dict(state["model"])
        optimiser.load(state["optimiser"])
        for generator, kept in zip(shuffling, state["shuffling"], strict=True):
            generator.set_state(kept.cpu())
        curve, watched = list(state["curve"]), state["watched"]

    step = _make_step(model, inputs, targets, optimiser, loss)
    last_kept = time.monotonic()
    epochs = ceil(total / of_epoch)
    for epoch in range(len(curve), epochs):
        order = torch.stack([torch.randperm(N, generator=generator) for generator in shuffling]).to(inputs.device)
        losses = torch.zeros(group.size, device=inputs.device)
        steps = min(of_epoch, total - epoch * of_epoch)
        for k in range(steps):
            optimiser.set_rate(rate_at(unit, (epoch * of_epoch + k) / total))
            losses += step(order[:, k * batch : (k + 1) * batch])
        curve.append(losses / steps)
        worker.tell(f"{stage}: epoch {epoch + 1} of {epochs}")
        seen = watch(epoch + 1)
        watched += [] if seen is None else [seen]
        stops = worker.is_out_of_time() and epoch + 1 < epochs
        if path is not None and (stops or epoch + 1 == epochs or time.monotonic() > last_kept + KEPT_EVERY):
            last_kept = time.monotonic()
            kept = [generator.get_state() for generator in shuffling]
            parts = {"model": model.state_dict(), "optimiser": optimiser.state(), "shuffling": kept}
            _write_state(path, parts | {"curve": curve, "watched": watched, "digest": worker.digest})
        if stops:
            raise OutOfTimeError(f"{stage}: epoch {epoch + 1} of {epochs}")
    return Trained(torch.stack(curve, 1).tolist() if curve else [[] for _ in range(group.size)], watched)


def _write_state(path: Path, state: Json) -> None:
    with whole(path) as (partial,):
        torch.save(state, partial)


def _read_state(path: Path, digest: str, device: Any) -> Json:
    try:
        state: Json = torch.load(path, map_location=device, weights_only=True)
        kept = state["digest"]
    except Exception as error:
        raise WeightwrightError(
            f"{path} does not say where a training stands ({error}); remove it, and the training begins anew"
        ) from error
    if kept != digest:
        raise WeightwrightError(f"{path} belongs to a run with other settings; remove it, or give --out another folder")
    return state


def count_training(unit: Json) -> int:
    """How many of a unit's samples are trained on; the others are held out."""
    return round(unit["train_share"] * unit["samples"])


def train_and_measure(
    model: nn.Module, group: Group, inputs: Tensor, targets: Tensor, unit: Json, worker: Worker, stage: str = "model"
) -> Json:
    """Train on the first samples and measure on the others, (G, N, ...); a number for each model.

    mse: mean squared error; over the numbers of a token it is summed.
    largest: the largest error of a single number.
    curve: training losses of all epochs.
    checks: what tells an unhealthy training.
    """
    kept = count_training(unit)
    curve = train_models(model, group, inputs[:, :kept], targets[:, :kept], unit, worker, stage=stage).curve
    y, wanted = run_in_pieces(model, inputs[:, kept:]), targets[:, kept:]
    largest = (y - wanted).abs().flatten(1).amax(1).tolist()
    mse = squared_error(y, wanted).tolist()
    seen = min(kept, MEASURED)
    training = squared_error(run_in_pieces(model, inputs[:, :seen]), targets[:, :seen]).tolist()
    return {"mse": mse, "largest": largest, "curve": curve, "checks": check_training(curve, training, mse)}


class _Optimiser:
    """Adam, whose rate may change and whose gradients may be cut, each model's by its own length."""

    def __init__(self, model: nn.Module, unit: Json, on_gpu: bool) -> None:
        self.parameters = list(model.parameters())
        self.clip: float | None = unit.get("clip")
        rate: Any = torch.tensor(float(unit["rate"]), device=self.parameters[0].device) if on_gpu else unit["rate"]
        self.adam = torch.optim.Adam(self.parameters, lr=rate, fused=True, capturable=on_gpu)
        self.on_gpu, self.rate = on_gpu, float(unit["rate"])

    def set_rate(self, rate: float) -> None:
        if rate == self.rate:
            return
        self.rate = rate
        for group in self.adam.param_groups:
            if self.on_gpu:
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def take_step(self, loss: Tensor) -> None:
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip is not None:
            gradients = [one.grad for one in self.parameters if one.grad is not None]
            length = torch.stack([one.flatten(1).square().sum(1) for one in gradients]).sum(0).sqrt()
            factor = (self.clip / length.clamp(min=1e-12)).clamp(max=1.0)
            for one in gradients:
                one.mul_(factor.view(-1, *[1] * (one.dim() - 1)))
        self.adam.step()

    def state(self) -> list[Json]:
        """What Adam knows of each parameter; the rate follows from the step."""
        return [{name: value.clone() for name, value in self.adam.state[one].items()} for one in self.parameters]

    def load(self, state: list[Json]) -> None:
        for one, known in zip(self.parameters, state, strict=True):
            self.adam.state[one] = known


def _make_step(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    optimiser: _Optimiser,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor], Tensor]:
    """What trains once on the samples of an index, (G, B), and returns the loss of every model, (G,)."""

    rows = torch.arange(len(inputs), device=inputs.device)[:, None]

    def step(index: Tensor) -> Tensor:
        errors = loss(model(inputs[rows, index]), targets[rows, index])
        optimiser.take_step(errors.sum())
        return errors.detach()

    return RecordedStep(step) if inputs.is_cuda else step


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
def run_in_pieces(model: nn.Module, inputs: Tensor, piece: int = 256) -> Tensor:
    """The model's outputs on (G, N, ...), `piece` samples at a time."""
    return torch.cat([model(inputs[:, k : k + piece]) for k in range(0, inputs.shape[1], piece)], 1)
