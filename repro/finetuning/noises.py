"""The sources of MeZO's perturbations by name, and the device that each needs."""

from typing import Literal

from repro.measurement.device import Device

NoiseName = Literal["torch", "engine", "engine-signs", "philox", "philox-signs"]
"""Source of MeZO's perturbations: PyTorch's generator, the on-device engine (on the CPU), or the
fused kernels of ``repro.methods.philox`` (on a GPU)."""


def uses_engine(noise: NoiseName) -> bool:
    """Return whether the on-device engine draws the noise."""
    return noise.startswith("engine")


def device_for(noise: NoiseName) -> Device | None:
    """Return the only device on which the noise can be drawn, or ``None`` if it is any."""
    if noise == "torch":
        return None
    return "cpu" if uses_engine(noise) else "cuda"
