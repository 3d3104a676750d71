"""ElasticZO-INT8 on the engine: after every step the weights are those of ``repro.integer``."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.validation import require_choice
from repro.integer.elasticzo_int8 import Activations, Restore, Restores, Watch
from repro.integer.limits import check_bits, check_p_zero, check_r_max
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import Estimate, StepInfo
from repro.ondevice.build import load
from repro.ondevice.layers import first_bp_layer, layer_table, samples
from repro.ondevice.limits import require_machine

NativeSign = Literal["float", "integer"]
"""The rules for the gradient's sign that the engine has; see ``repro.integer.sign``."""


class NativeElasticZOInt8:
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
        r_max: int = 15,
        p_zero: float = 0.33,
        b_zo: int = 1,
        b_bp: int = 5,
        sign: NativeSign = "float",
        activations: Activations = "plus",
        restore: Restore = "clip",
        seed: int = 0,
        capacity: int = 512,
        threads: int = 1,
        instructions: str = "auto",
    ) -> None:
        """Check every setting and allocate all memory.

        Args:
            network: to train; its weights are moved.
            structure: what the network was made of.
            input_shape: of a sample, as [C, H, W] or [N, F].
            partition: name of the first layer of the tail, or the number C of layers before it.
            r_max: largest entry of a perturbation.
            p_zero: share of its entries that are zero; may be set between steps.
            b_zo: bits of the zeroth-order update.
            b_bp: bits of the tail's update; may be set between steps.
            sign: how the losses of the two passes are compared.
            activations: which of the two passes the tail's backward pass uses.
            restore: whether clipped weights come back.
            seed: of all random streams.
            capacity: most samples of a batch, trained or evaluated; decides ``arena_bytes``.
            threads: OpenMP threads; no result depends on them.
            instructions: the instruction set, one of ``instruction_sets()``; no result depends on
                it.

        Raises:
            UsageError: a setting is out of range, the partition names no layer, or the engine has
                no kernel for a layer or for the network's shift policy.
            EngineError: the engine is not built.
        """
        check_r_max(r_max)
        check_bits("b_zo", b_zo)
        require_choice("sign", sign, get_args(NativeSign))
        require_choice("activations", activations, get_args(Activations))
        require_choice("restore", restore, get_args(Restore))
        require_machine(capacity, threads)
        if network.policy.version != "v2":
            msg = f"shift policy {network.policy.version!r}: the engine has 'v2' only"
            raise UsageError(msg)
        engine = load()
        layers = layer_table(structure, input_shape)
        if [layer.name for layer in layers] != list(network.weighted):
            msg = f"the structure's layers are not the network's: {', '.join(network.weighted)}"
            raise UsageError(msg)
        require_choice("instructions", instructions, ("auto", *engine.instruction_sets()))
        self.network = network
        self._weighted = list(network.weighted.values())
        self.sign: NativeSign = sign
        self.watch: Watch | None = None
        """Sees both passes of every estimate, after the step."""
        self.p_zero, self.b_bp = p_zero, b_bp
        self.seed = seed
        self.steps = 0
        """Steps done."""
        self.restores = Restores(0, 0)
        self.last: StepInfo | None = None
        self._tail = first_bp_layer(structure, layers, partition)
        try:
            self._training = engine.IntTraining(
                layers=[engine.Layer(**asdict(layer)) for layer in layers],
                exponents=[0] * len(layers),  # see _exponent
                tail=self._tail,
                capacity=capacity,
                threads=threads,
                isa=instructions,
                r_max=r_max,
                b_zo=b_zo,
                sign=sign,
                minus_activations=activations == "minus",
                exact_restore=restore == "exact",
                seed=seed % (1 << 64),
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
        self._head = sum(network.sizes[: self._tail])
        shared = torch.from_numpy(self._training.parameters)
        shared.copy_(network.parameters)
        network.parameters = shared
        network.to("cpu")

    def step(self, inputs: IntegerTensor, labels: Tensor) -> StepInfo:
        """Do one step of Algorithm 2; see ``ElasticZOInt8.step``.

        Ctrl-C is heard after the step.

        Raises:
            UsageError: ``p_zero`` or ``b_bp`` is out of range, or the batch does not fit the
                network; no weight has been touched.
        """
        check_p_zero(self.p_zero)
        check_bits("b_bp", self.b_bp)
        try:
            sign, plus, minus, key, clipped = self._training.step(
                samples(inputs.values),
                self._exponent(inputs),
                labels.contiguous().numpy(),
                self.steps,
                self.p_zero,
                self.b_bp,
            )
        except (ValueError, TypeError) as error:
            raise UsageError(str(error).partition("\n")[0]) from error
        self.steps += 1
        if self._tail == 0:
            self.last = StepInfo(plus)
            return self.last
        self.restores = Restores(self.restores.inexact + clipped, self.restores.total + self._head)
        self.last = StepInfo((plus + minus) / 2, (Estimate(key, plus, minus, sign),))
        if self.watch is not None:
            first, second = self._training.passes()
            self.watch(_logits(*first), _logits(*second), labels)
        return self.last

    def forward(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits [B, classes], as ``network.forward`` does.

        Raises:
            UsageError: the batch does not fit the network.
        """
        try:
            values, exponent = self._training.forward(
                samples(inputs.values), self._exponent(inputs)
            )
        except (ValueError, TypeError) as error:
            raise UsageError(str(error).partition("\n")[0]) from error
        return _logits(values, exponent)

    def _exponent(self, inputs: IntegerTensor) -> int:
        """Return the inputs' exponent and the weights', which may be loaded anew.

        The logits' exponent is the sum of these and of the shifts; nothing else depends on them.
        """
        return inputs.exponent + sum(layer.weight.exponent for layer in self._weighted)

    @property
    def arena_bytes(self) -> int:
        """All memory that the engine uses for the network, its activations and its training."""
        size: int = self._training.arena_bytes
        return size

    @property
    def seconds(self) -> dict[str, float]:
        """Time of all steps so far in each phase of ElasticZO's Fig. 7.

        The tail's update counts as ``backward``; ``other`` is the reading of the batch.
        """
        phases: dict[str, float] = self._training.seconds()
        return phases

    def state_dict(self) -> dict[str, Any]:
        """Return what ``ElasticZOInt8.state_dict`` would: a run may go on with either."""
        return {
            "seed": self.seed,
            "steps": self.steps,
            "p_zero": self.p_zero,
            "b_bp": self.b_bp,
            "restores": (self.restores.inexact, self.restores.total),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` of either engine returned."""
        self.seed, self.steps = state["seed"], state["steps"]
        self._training.seed = self.seed % (1 << 64)
        self.p_zero, self.b_bp = state["p_zero"], state["b_bp"]
        self.restores = Restores(*state["restores"])


def _logits(values: NDArray[np.int8], exponent: int) -> IntegerTensor:
    return IntegerTensor(torch.from_numpy(values), exponent)
