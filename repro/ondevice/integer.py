"""ElasticZO-INT8 on the engine: after every step its weights equal ``repro.integer``'s."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.signals import uninterrupted
from repro.core.validation import require_choice, require_whole
from repro.integer.elasticzo_int8 import Algorithm2, Rules
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor, require_integers
from repro.methods.step_info import StepInfo
from repro.ondevice.training import EngineTraining, called, classes_of

SIGNS = ("float", "integer")
"""The rules for the gradient's sign that the engine has; see ``repro.integer.sign``."""


class NativeElasticZOInt8(Algorithm2, EngineTraining):
    """Algorithm 2, as ``repro.integer.elasticzo_int8.ElasticZOInt8`` does it, bit for bit.

    Example::

        network = IntegerNetwork.random(lenet5(bias=False), seed=0)
        elastic = NativeElasticZOInt8(network, lenet5(bias=False), (1, 28, 28), "fc3")
        for images, labels in batches:
            elastic.step(IntegerTensor(images, exponent), labels)

    The network's weights move into the engine's memory and stay views of it, so that ``network``
    may be read, evaluated, saved and loaded at any time, and a run may go on with either engine.

    One rule is equal but for rounding: with ``sign="float"`` both compute the cross-entropy in
    float64, by different exponentials, so losses that agree to about 14 digits may be ordered
    otherwise. ``sign="integer"`` has no such case.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        structure: nn.Sequential,
        input_shape: tuple[int, ...],
        partition: str | int,
        *,
        capacity: int = 512,
        threads: int = 1,
        instructions: str = "auto",
        compact: bool = False,
        **rules: Unpack[Rules],
    ) -> None:
        """Check every setting and allocate all memory.

        ``network``, which was made of ``structure``, is trained; its weights are moved. See
        ``Rules`` for ``rules`` and ``EngineTraining`` for the other settings. With ``compact`` the
        engine takes a sample at a time: the results are the same, and a step takes less memory and
        more time (docs/ondevice.md).

        Raises:
            UsageError: a setting is out of range, the partition names no layer, or the engine has
                no kernel for a layer or for the network's shift policy.
            EngineError: the engine is not built.
        """
        Algorithm2.__init__(self, network, **rules)
        require_choice("sign", self.sign, SIGNS)
        if network.policy.version != "v2":
            raise UsageError(f"shift policy {network.policy.version!r}: the engine has 'v2' only")
        self._weighted = list(network.weighted.values())

        of_structure = IntegerNetwork.random(structure, seed=0).layers
        if repr(of_structure) != repr(network.layers):
            raise UsageError(
                f"the structure's layers are {of_structure}, the network's {network.layers}: give "
                "the structure that the network was made of"
            )
        EngineTraining.__init__(
            self,
            "IntTraining",
            structure,
            input_shape,
            partition,
            capacity=capacity,
            threads=threads,
            instructions=instructions,
            seed=self.seed,
            r_max=self.r_max,
            sign=self.sign,
            minus_activations=self.activations == "minus",
            exact_restore=self.restore == "exact",
            compact=compact,
        )
        self._zo_weights = sum(network.sizes[: self.start])
        shared = torch.from_numpy(self.training.parameters)
        shared.copy_(network.parameters)
        network.parameters = shared
        self._address = shared.data_ptr()
        # the weights are there already: this makes the layers' weights views of them
        network.to("cpu")

    def step(self, inputs: IntegerTensor, labels: Tensor) -> StepInfo:
        """Do one step of Algorithm 2; see ``ElasticZOInt8.step``.

        Ctrl-C is heard after the step. Several threads may use the object; one waits for the other.

        Raises:
            UsageError: ``p_zero``, ``b_zo`` or ``b_bp`` is out of range, the batch does not fit
                the network, or the network's weights were replaced; no weight has been touched.
        """
        self.check_schedule()
        self._require_shared()
        require_integers(inputs)
        values = self._samples(inputs.values, torch.int8)
        classes, exponent = classes_of(labels), self._exponent(inputs)
        with self._lock:
            with uninterrupted():  # else a signal could come between the step and its count
                sign, plus, minus, key, clipped = called(
                    self.training.step,
                    *(values, exponent, classes),
                    *(self.steps, self.p_zero, self.b_zo, self.b_bp),
                )
                self.steps += 1
                self.last = info = self.info(plus, minus, key, sign)
                if self.start:
                    self.count_restores(clipped, self._zo_weights)
                    self.has_moved |= sign != 0
            if self.start:
                self.warn_if_unmoved()
                if self.watch is not None:
                    first, second = self.training.passes()
                    self.watch(_logits(*first), _logits(*second), labels)
        return info

    def forward(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits [B, classes], as ``network.forward`` does.

        Raises:
            UsageError: the batch does not fit the network, or the network's weights were replaced.
        """
        self._require_shared()
        require_integers(inputs)
        values, exponent = self._samples(inputs.values, torch.int8), self._exponent(inputs)
        with self._lock:
            return _logits(*called(self.training.forward, values, exponent))

    def _exponent(self, inputs: IntegerTensor) -> int:
        """Return the sum of the inputs' exponent and the weights', which may be reloaded.

        The logits' exponent is the sum of these and of the shifts; nothing else depends on them.

        Raises:
            UsageError: it is beyond +-2^30.
        """
        total = inputs.exponent + sum(layer.weight.exponent for layer in self._weighted)
        return require_whole("sum of the exponents", total, -(1 << 30), 1 << 30)

    def _require_shared(self) -> None:
        """Raise ``UsageError`` unless the network still has the memory that the engine trains."""
        if self.network.parameters.data_ptr() != self._address:
            raise UsageError(
                "the network's parameters were replaced after the engine took them: copy values "
                "into them, as load_state_dict does, or make a new NativeElasticZOInt8"
            )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``state_dict``, of this engine or of PyTorch's method."""
        with self._lock:
            super().load_state_dict(state)
            self.training.seed = self.seed % (1 << 64)


def _logits(values: NDArray[np.int8], exponent: int) -> IntegerTensor:
    return IntegerTensor(torch.from_numpy(values), exponent)
