"""Ways to change a weight of a network, and what each must change: what runs, what is saved and what is said."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww


def places(net: ww.AttentionNetwork) -> Iterator[tuple[str, torch.nn.Module, str]]:
    for place in net.state_dict():
        module, _, name = place.rpartition(".")
        yield place, net.get_submodule(module), name


def written(tensor: torch.Tensor) -> None:
    """Another number in place of the last."""
    if tensor.numel():
        last = tensor.view(-1)[-1:]
        last.copy_(~last if last.dtype == torch.bool else last + 0.25)


def by_data(net: ww.AttentionNetwork, module: torch.nn.Module, name: str) -> None:
    written(getattr(module, name).data)


def by_numpy(net: ww.AttentionNetwork, module: torch.nn.Module, name: str) -> None:
    array = getattr(module, name).numpy()
    array.flat[-1] = ~array.flat[-1] if array.dtype == np.bool_ else array.flat[-1] + 0.25


def by_attribute(net: ww.AttentionNetwork, module: torch.nn.Module, name: str) -> None:
    other = getattr(module, name).clone()
    written(other)
    setattr(module, name, other)


def by_state_dict(net: ww.AttentionNetwork, module: torch.nn.Module, name: str) -> None:
    state = {key: value.clone() for key, value in net.state_dict().items()}
    place = next(key for key, inner, last in places(net) if inner is module and last == name)
    written(state[place])
    net.load_state_dict(state)


def in_place(net: ww.AttentionNetwork, module: torch.nn.Module, name: str) -> None:
    written(dict(net.named_buffers())[next(key for key, m, last in places(net) if m is module and last == name)])


WAYS = (by_data, by_numpy, by_attribute, by_state_dict, in_place)


def edit_every_weight(net: ww.AttentionNetwork, x: torch.Tensor, folder: Path) -> None:
    """What runs is what is saved, and no certificate is about it."""
    status = net.certificate.status
    y, count = net(x), 0
    for index, (place, _, last) in enumerate(list(places(net))):
        edited = copy.deepcopy(net)
        assert edited.certificate.status == status
        edited(x)  # what can be kept is kept
        if not edited.state_dict()[place].numel():
            continue
        WAYS[index % len(WAYS)](edited, edited.get_submodule(place.rpartition(".")[0]), last)
        assert edited.certificate.status == "EDITED", place
        assert "EDITED" in repr(edited)
        assert place in edited.certificate.why or "no network any more" in edited.certificate.why
        try:
            edited.save(folder / "net.safetensors")
        except ww.LawError:
            assert "no network any more" in edited.certificate.why
            continue
        loaded = ww.load(folder / "net.safetensors")
        edited.on_domain = "ignore"
        assert torch.equal(edited(x), loaded(x)), place
        assert loaded.digest() == edited.digest() != net.digest()
        with pytest.raises(ww.CertificateError):
            ww.check(folder / "net.safetensors")
        count += not torch.equal(loaded(x), y)
    assert count > 2  # most weights matter
