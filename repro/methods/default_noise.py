"""The noise of an optimizer without one, and of a log that names it."""

import functools
import warnings
from collections.abc import Sequence
from contextlib import suppress

import torch

from repro.core.errors import UsageError
from repro.methods.noise import Noise
from repro.methods.perturbed_weights import Restore
from repro.methods.philox import PhiloxNoise, PhiloxSigns
from repro.methods.rademacher import RademacherNoise
from repro.methods.torch_noise import TorchNoise


def default_noise(
    parameters: Sequence[torch.Tensor], restore: Restore, chunk: int | None, *, signs: bool = False
) -> Noise:
    """Return the fused kernels for weights on a GPU, and PyTorch's generator for others.

    A ``chunk`` is a setting of PyTorch's generator, which then draws. It also draws where the
    kernels cannot run or do not support the weights.

    Args:
        parameters: the perturbed weights.
        restore: how they are restored.
        chunk: elements that PyTorch's generator draws from one seed.
        signs: whether the numbers are random signs rather than Gaussian.
    """
    devices = {parameter.device for parameter in parameters}
    if chunk is None and {device.type for device in devices} == {"cuda"}:
        fused = PhiloxSigns() if signs else PhiloxNoise()
        with suppress(UsageError):
            fused.prepare(parameters, exact=restore == "exact")
            if all(map(kernels_run, devices)):
                return fused
    return RademacherNoise(chunk) if signs else TorchNoise(chunk)


def named_noise(name: str, chunk: int | None) -> Noise:
    """Return the noise that a log calls ``name``; PyTorch's Gaussian for names not known here."""
    if name == RademacherNoise.name:
        return RademacherNoise(chunk)
    for kind in (PhiloxNoise, PhiloxSigns):
        if name == kind.name:
            return kind()
    return TorchNoise(chunk)


@functools.cache
def kernels_run(device: torch.device) -> bool:
    """Return whether the fused kernels run on ``device``; warn if they should, but do not.

    Triton needs a C compiler besides the GPU, which many containers lack.
    """
    try:
        PhiloxNoise().add_([torch.zeros(16, device=device)], 0, 1.0)
    except torch.OutOfMemoryError:
        raise  # it says nothing about the kernels
    except Exception as error:  # noqa: BLE001 - whatever Triton or the driver raises
        reason = (str(error).splitlines() or [""])[0]
        warnings.warn(
            f"the fused kernels do not run on {device} ({type(error).__name__}: {reason}), so "
            "PyTorch's generator draws the noise, which takes longer; to use them, install a C "
            "compiler and Triton; to silence this, give noise=TorchNoise()",
            stacklevel=2,
        )
        return False
    return True
