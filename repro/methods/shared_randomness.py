"""Use the same random numbers in every pass of a step, so that dropout masks are equal."""

import torch


class SharedRandomness:
    """Rewinds PyTorch's global generators, of the host and of the weights' device.

    Different dropout masks would change the losses of two passes by far more than the perturbation
    does, and the difference is divided by 2 eps. With equal masks the estimate is the derivative of
    the masked network's loss.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start: list[torch.Tensor] = []

    def rewind(self) -> None:
        """Restore the generators' state from the first call since ``forget``."""
        if not self._start:
            self._start = random_state(self._device)
            return
        host, *others = self._start
        torch.default_generator.set_state(host)
        for state in others:
            torch.get_device_module(self._device).set_rng_state(state, self._device)

    def forget(self) -> None:
        """End the step; the next step has new random numbers."""
        self._start = []


def random_state(device: torch.device) -> list[torch.Tensor]:
    """Return the state of the host's generator and, on a GPU, of the device's."""
    host = torch.default_generator.get_state()
    if device.type in ("cpu", "meta"):
        return [host]
    return [host, torch.get_device_module(device).get_rng_state(device)]
