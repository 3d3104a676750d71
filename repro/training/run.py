"""The description of a training run: everything that decides its outcome."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from repro.core.errors import UsageError
from repro.core.names import (
    Activations,
    Augmentation,
    BackpropRule,
    Engine,
    IntegerActivations,
    IntegerRestore,
    MethodName,
    Precision,
    ShiftVersion,
    SignRule,
)
from repro.core.validation import Checked, Points, Seed, require_choice
from repro.integer.limits import Bits, PZero, RMax
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.ondevice.build import module_path
from repro.training.task import Evaluation, vision_task

if TYPE_CHECKING:
    from repro.training.loop import Training

INITIAL, ORDER, NOISE, AUGMENTATION, ADAPTERS = range(5)
"""The uses of a seed: initial weights, order of items, perturbations, augmentation, adapters."""

BatchNorm = Literal["batch", "frozen"]
InitialWeights = Literal["pytorch", "he"]

SIGNS: dict[Precision, tuple[SignRule, ...]] = {
    "int8": ("float",),
    "int8_star": ("integer", "exact"),
}
"""Rules for the gradient's sign in each integer precision; the first one is the paper's."""


def derived_seed(seed: int, use: int) -> int:
    """Return an independent seed for one ``use`` of a run's seed, below 2**32."""
    return int(np.random.SeedSequence([seed, use]).generate_state(1)[0])


@dataclass(frozen=True)
class FloatSettings(Checked):
    """Hyperparameters of training in float32."""

    lr: float
    """Learning rate of the first epochs."""
    eps: float = 1e-2
    """Scale of the perturbation; unused by Full BP."""
    clip: float = 0.3
    """g_clip; unused by Full BP."""
    activations: Activations = "plus"
    """The pass whose activations the tail's BP uses."""
    batch: int = 32
    rule: BackpropRule = "sgd"
    """Adam is for pre-training by Full BP only."""
    decay: float = 0.8
    decay_every: int = 10
    batch_norm: BatchNorm = "batch"
    """Statistics that batch norm uses in training: the batch's, which update the running ones; or,
    frozen, the initial running ones (mean 0, variance 1), so that only its scale and shift act."""
    initial_weights: InitialWeights = "pytorch"
    """PyTorch's default, or He et al.'s normal distribution (arXiv 1502.01852) with biases of 0."""


@dataclass(frozen=True)
class IntegerSettings(Checked):
    """Hyperparameters of training in integers."""

    r_max: RMax = 15
    """Largest magnitude of the perturbation; unused by Full BP."""
    batch: int = 256
    b_zo: Bits = 1
    """Bits of the zeroth-order update."""
    p_zero: PZero | None = None
    """Sparsity of the perturbation, for all epochs; by default the paper's schedule."""
    restore: IntegerRestore = "clip"
    """How clipped weights are restored."""
    shift_policy: ShiftVersion = "v2"
    """NITI's rules for narrowing accumulators."""
    activations: IntegerActivations = "plus"
    """The pass whose activations the tail's BP uses."""
    sign: SignRule | None = None
    """Rule for the gradient's sign; by default the paper's rule for the precision."""


Settings = FloatSettings | IntegerSettings
_ADDED = {"batch_norm": "batch", "initial_weights": "pytorch", "augmentation": "none"}
"""Settings missing from the first records, with their value in these records. Left out at
this value, so that old and new records of the same training match."""


def as_recorded(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of ``settings`` as records have them."""
    return {name: v for name, v in asdict(settings).items() if (name, v) not in _ADDED.items()}


FinalState = Callable[["NetworkRun"], dict[str, Any]]


class TrainingRun(ABC):
    """One training run, a frozen dataclass with a field for everything that decides its outcome.

    The loop, the checkpoint store and the workers accept any run; the run builds its own training.
    """

    device: Device
    is_timed: ClassVar[bool] = False
    """Whether its time is a result. Such a run is then refused, not waited for, while another
    process trains it, and running out of memory counts as a result."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain values, under the names used in records."""

    @abstractmethod
    def key(self) -> dict[str, Any]:
        """Return everything that identifies the run's state, as plain values."""

    @abstractmethod
    def label(self) -> str:
        """Return a short label that identifies the run."""

    @abstractmethod
    def training(self, final_state: "FinalState") -> "Training[Any]":
        """Build the learner and the data for the loop.

        Args:
            final_state: returns the last state of the run from which this one starts.
        """


@dataclass(frozen=True)
class NetworkRun(Checked, TrainingRun):
    """LeNet-5 or PointNet, in floating point or in integers, trained for a number of epochs."""

    task: str
    """Name of the task; see ``repro.training.task``."""
    precision: Precision
    method: MethodName
    settings: Settings
    epochs: int
    seed: Seed
    """Seed of the initial weights, the order of the items, the perturbations and the
    augmentation."""
    evaluation: Evaluation = "test"
    train_items: int | None = None
    """Number of training items; by default all."""
    points: Points | None = None
    """Number of points of each cloud; by default all."""
    augmentation: Augmentation = "none"
    """Random augmentation of the training items; evaluation items are never augmented."""
    device: Device = "cpu"
    engine: Engine = "torch"
    """The engine that trains. In integers both engines give the same bits, so their records are
    interchangeable; in float32 each has its own noise and rounding."""
    signs: bool = False
    """Whether to count agreements between the rules for the gradient's sign; in integers only."""
    start: "NetworkRun | None" = None
    """The run whose final weights are this run's initial weights; by default they are random."""

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        super().__post_init__()
        self._check_task()
        self._check_settings()
        if self.engine == "native" and (reason := self.why_not_native()):
            raise UsageError(
                f"{self.label()} on the on-device engine: {reason}; use --engine torch, or "
                "--engine auto, which trains with PyTorch where the engine cannot"
            )

    def _check_task(self) -> None:
        task = vision_task(self.task)
        if task.of_clouds and self.precision != "fp32":
            raise UsageError(
                f"{self.task} in {self.precision}: integer training is for sets of images; use fp32"
            )
        if self.points is not None and not task.of_clouds:
            raise UsageError(
                f"points = {self.points} of {self.task}: only clouds have points; leave points out"
            )
        if self.augmentation != "none" and task.vertical is None:
            raise UsageError(
                f"augmentation = {self.augmentation!r} of {self.task}: it turns shapes about "
                "the vertical axis, which only sets of point clouds with such an axis have; use "
                "'none'"
            )
        if self.start is not None:
            own = (task.network, task.classes, self.precision == "fp32")
            begun = vision_task(self.start.task)
            if own != (begun.network, begun.classes, self.start.precision == "fp32"):
                msg = f"{self.label()} cannot start from the weights of {self.start.label()}"
                raise UsageError(msg)

    def _check_settings(self) -> None:
        if isinstance(self.settings, FloatSettings) != (self.precision == "fp32"):
            raise UsageError(
                f"precision {self.precision!r} with {type(self.settings).__name__}: use "
                "FloatSettings for fp32 only"
            )
        adam = isinstance(self.settings, FloatSettings) and self.settings.rule == "adam"
        if adam and self.method != "full_bp":
            raise UsageError(f"rule 'adam' with {self.method}: adam is for full_bp only; use sgd")
        if isinstance(self.settings, IntegerSettings) and self.settings.sign is not None:
            allowed = SIGNS[self.precision]
            require_choice(f"sign in {self.precision}", self.settings.sign, allowed)
        if self.signs and (self.precision == "fp32" or self.method == "full_bp"):
            raise UsageError(f"signs are not estimated by {self.method} in {self.precision}")

    def why_not_native(self) -> str:
        """Return why the on-device engine cannot train this run, or an empty string if it can."""
        settings = self.settings
        if self.device != "cpu":
            return f"it runs on the host, not on {self.device}"
        if isinstance(settings, FloatSettings):
            return "it has no Adam" if settings.rule == "adam" else ""
        if settings.shift_policy != "v2":
            return f"it has no shift policy {settings.shift_policy}"
        return "it has no rule 'exact' for the sign" if settings.sign == "exact" else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the run for a record, where its task is called ``problem``.

        The engine is included only if it affects the outcome and is not PyTorch, that is, for
        native float32.
        """
        values = as_recorded(self)
        values = {"problem": values.pop("task"), **values}
        values["settings"] = as_recorded(self.settings)
        values["start"] = self.start.as_dict() if self.start else None
        if self.engine == "torch" or self.precision != "fp32":
            del values["engine"]
        return values

    def key(self) -> dict[str, Any]:
        """Return all that identifies the run's state, including the engine's sources if used.

        They are included in integers, too, although both engines should give the same bits: a
        mended engine does not continue the runs of a faulty one.
        """
        key = self.as_dict()
        if self.engine == "native":
            # the first hash is of the engine's Python files, the second of its C++ and the compiler
            key["engine"] = [self.engine, source_sha256("ondevice"), module_path().parent.name]
        if self.start:
            key["start"] = self.start.key()
        return key

    def training(self, final_state: "FinalState") -> "Training[Any]":
        """Build the learner and its items; see ``repro.training.build``."""
        # not above: it brings PyTorch, and commands that do not train import this module, too
        from repro.training.build import network_training

        return network_training(self, final_state)

    def label(self) -> str:
        """Return a short label that identifies the run."""
        return f"{self.task} {self.precision} {self.method} seed {self.seed}"
