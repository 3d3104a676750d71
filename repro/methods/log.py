"""The log of a zeroth-order run: seeds and projected gradients, which determine all weights.

A step takes 20 bytes for each of its estimates, and 8 more for each further parameter group.
Replayed on the initial weights of the run, the log gives its final weights bit by bit: the replay
does the same arithmetic in the same order, without the forward passes.
"""

import base64
import copy
import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from repro.core import atomic
from repro.core.errors import ReproError, UsageError
from repro.core.validation import require_whole
from repro.methods.default_noise import named_noise
from repro.methods.noise import Noise
from repro.methods.parameters import require_movable, tensors_of
from repro.methods.perturbed_weights import PerturbedWeights, Restore
from repro.methods.rules import OFFSETS, Estimator
from repro.methods.step_info import GradientEstimate

_ENTRY = struct.Struct("<Idd")
_LR = struct.Struct("<d")
MOST_BYTES = 2**27
"""Size limit in bytes of a log with an unknown number of steps: 6.7 million estimates."""


class Entry(NamedTuple):
    """One estimate of one step."""

    seed: int
    gradient: float
    """Factor of z: the projected gradient after clipping, as changed by the update rule."""
    lr: float
    """Learning rate of the first parameter group in this step."""


class GroupLog(NamedTuple):
    """The settings of a parameter group, the same in all steps."""

    tensors: int
    eps: float
    weight_decay: float


@dataclass
class StepLog:
    """All estimates of a run in order, ``perturbations`` of them per step."""

    eps: float
    perturbations: int
    chunk: int | None
    restore: Restore = "rounded"
    """See ``repro.methods.perturbed_weights``."""
    noise: str = "torch"
    """See ``repro.methods.noise``."""
    estimator: Estimator = "two-sided"
    """See ``repro.methods.rules``."""
    groups: Sequence[GroupLog] = ()
    """The parameter groups, or none for a single one without weight decay."""
    elements: int = 0
    """Number of perturbed weights; 0 if unknown, as in older logs."""
    structure: int = 0
    """See ``structure_of``; 0 if unknown, as in older logs."""
    data: bytearray = field(default_factory=bytearray, repr=False)
    """The packed entries: 20 bytes each, and 8 more for each further parameter group."""

    @property
    def entries(self) -> list[Entry]:
        """The estimates, unpacked."""
        return [entry for entry, _ in self._unpacked()]

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return len(self.data) // self.bytes_of(1)

    @property
    def last(self) -> Entry | None:
        """The last estimate, or ``None`` before the first step."""
        return Entry(*_ENTRY.unpack_from(self.data, -self._size)) if self.data else None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run; later additions only if they differ from their defaults."""
        later: dict[str, Any] = {}
        if self.estimator != "two-sided":
            later["estimator"] = self.estimator
        if self.groups:
            later["groups"] = [list(group) for group in self.groups]
        if self.elements:
            later["elements"] = self.elements
        if self.structure:
            later["structure"] = self.structure
        return later | {
            "eps": self.eps,
            "perturbations": self.perturbations,
            "chunk": self.chunk,
            "restore": self.restore,
            "noise": self.noise,
        }

    def bytes_of(self, steps: int) -> int:
        """Return the size in bytes of the entries of ``steps`` steps."""
        return steps * self.perturbations * self._size

    def append(self, estimates: Sequence[GradientEstimate], lr: float, *others: float) -> None:
        """Add one step, with the learning rate of each parameter group."""
        for entry in step_entries(estimates, lr):
            self.data += _ENTRY.pack(*entry)
            for other in others:
                self.data += _LR.pack(other)

    def packed(self) -> dict[str, Any]:
        """Return the log as values for JSON: its settings, and its entries as text.

        The entries are compressed by zlib, in base64.
        """
        entries = base64.b64encode(zlib.compress(bytes(self.data), 9)).decode()
        return self.settings | {"chunk": self.chunk or 0, "entries": entries}  # records lack null

    @classmethod
    def unpacked(cls, stored: Mapping[str, Any], steps: int | None = None) -> "StepLog":
        """Return the log that ``packed`` returned.

        Args:
            stored: settings that older logs lack may be missing.
            steps: most steps of the log, if known; otherwise its entries may take ``MOST_BYTES``.

        Raises:
            ReproError: the log is damaged, or has entries of more steps.
        """
        try:
            settings = {name: value for name, value in stored.items() if name != "entries"}
            groups = [
                GroupLog(int(n), float(e), float(d)) for n, e, d in settings.get("groups", ())
            ]
            log = cls(**settings | {"chunk": settings["chunk"] or None, "groups": groups})
            most = MOST_BYTES if steps is None else log.bytes_of(steps)
            inflating = zlib.decompressobj()
            entries = base64.b64decode(stored["entries"], validate=True)
            log.data += inflating.decompress(entries, most + 1)
            if len(log.data) > most or not inflating.eof or inflating.unused_data:
                raise ValueError(f"truncated, or more than {most:,} bytes of entries")
            log._require_valid()
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
            msg = f"not a log of zeroth-order steps, or damaged ({error!r}); get it again"
            raise ReproError(msg) from error
        return log

    def save(self, path: str | Path) -> None:
        """Write the log to ``path`` as JSON, in one step.

        Raises:
            ReproError: it cannot be written there.
        """
        atomic.replace(Path(path), json.dumps(self.packed()).encode())

    @classmethod
    def load(cls, path: str | Path) -> "StepLog":
        """Read a log written by ``save``.

        Raises:
            ReproError: ``path`` cannot be read, is not a log, or is damaged.
        """
        try:
            return cls.unpacked(json.loads(Path(path).read_bytes()))
        except OSError as error:
            raise ReproError(f"{path}: the log cannot be read ({error.strerror})") from error
        except ReproError as error:
            raise ReproError(f"{path}: {error}") from error
        except (ValueError, RecursionError) as error:
            msg = f"{path}: not a log of zeroth-order steps, or damaged ({error!r})"
            raise ReproError(msg) from error

    def _require_valid(self) -> None:
        """Raise ``ValueError`` unless the settings are valid and the entries make whole steps."""
        for found, known in (
            (self.restore, get_args(Restore)),
            (self.estimator, OFFSETS),
        ):
            if found not in known:
                raise ValueError(found)
        wholes = [self.perturbations, *(group.tensors for group in self.groups)]
        if self.chunk is not None:
            wholes.append(self.chunk)
        if not all(type(whole) is int and whole > 0 for whole in wholes):
            raise ValueError(f"{wholes}: must be whole numbers above 0")
        if not all(
            math.isfinite(eps) and eps > 0 for eps in (self.eps, *(g.eps for g in self.groups))
        ):
            raise ValueError(f"eps = {self.eps}, groups = {self.groups}: eps must be above 0")
        if not all(0 <= group.weight_decay < math.inf for group in self.groups):
            raise ValueError(f"groups = {self.groups}: weight decay must be at least 0")
        if len(self.data) % self.bytes_of(1):
            raise ValueError(
                f"{len(self.data)} bytes of entries are no whole number of steps of "
                f"{self.perturbations} estimates"
            )

    def updates(self) -> Iterator[tuple[list[Entry], list[list[tuple[int, float]]], list[float]]]:
        """Yield the entries of each step, and for each group its rates and its weight decay."""
        unpacked = list(self._unpacked())
        for start in range(0, len(unpacked), self.perturbations):
            step = unpacked[start : start + self.perturbations]
            entries = [entry for entry, _ in step]
            yield entries, *self.step_rates(entries, step[0][1])

    def step_rates(
        self, entries: Sequence[Entry], lrs: Sequence[float]
    ) -> tuple[list[list[tuple[int, float]]], list[float]]:
        """Return the rates of a step and its weight decay, for each parameter group.

        A rate is a seed with the factor of its z, which is subtracted from theta. The last estimate
        comes first: the weights are still perturbed by it.

        g is the derivative along eps z. In a group with its own eps, z is scaled by the ratio of
        this eps to the common one, so the group's estimate is g times the inverse ratio.
        """
        groups = self.groups or [GroupLog(0, self.eps, 0.0)]
        rates = [
            [
                # in another order the factors would round differently, and old logs not replay
                (entry.seed, lr / len(entries) * entry.gradient * (self.eps / group.eps))
                for entry in (entries[-1], *entries[:-1])
            ]
            for group, lr in zip(groups, lrs, strict=True)
        ]
        decays = [lr * group.weight_decay for group, lr in zip(groups, lrs, strict=True)]
        return rates, decays

    @property
    def _size(self) -> int:
        """Bytes of one packed entry."""
        return _ENTRY.size + _LR.size * max(0, len(self.groups) - 1)

    def _unpacked(self) -> Iterator[tuple[Entry, list[float]]]:
        """Yield each estimate and the learning rates of all groups."""
        for start in range(0, len(self.data), self._size):
            entry = Entry(*_ENTRY.unpack_from(self.data, start))
            others = self.data[start + _ENTRY.size : start + self._size]
            yield entry, [entry.lr, *(lr for (lr,) in _LR.iter_unpack(others))]


def structure_of(parameters: Sequence[torch.Tensor]) -> int:
    """Return a checksum of the shapes and number formats of parameters, in their order."""
    described = repr([(tuple(p.shape), str(p.dtype)) for p in parameters])
    return zlib.crc32(described.encode())


def replay(
    log: StepLog,
    parameters: Iterable[torch.Tensor] | Iterable[tuple[str, torch.Tensor]],
    noise: Noise | None = None,
    *,
    steps: int | None = None,
) -> None:
    """Turn the initial weights of a run into its final weights, in place, or into earlier ones.

    With ``restore="exact"`` only the updates are made: n passes of a step's 4 n - 1.

    Args:
        log: the log of the run.
        parameters: the perturbed tensors, in the same order, on the same kind of device; also as
            ``model.parameters()`` or ``model.named_parameters()``.
        noise: the noise of the run; needed only if it has settings of its own, such as a rank, or
            comes from the on-device engine.
        steps: number of steps to replay; by default all.

    Raises:
        UsageError: the run used other noise or has fewer steps, the log does not fit the
            parameters, these cannot be changed, or something else than parameters is given.
    """
    given: object = log  # a caller may give a path
    if not isinstance(given, StepLog):
        msg = f"replay({given!r}, ...): give the log itself, as StepLog.load(path) reads it"
        raise UsageError(msg)
    noise = noise or named_noise(log.noise, log.chunk)
    if noise.name != log.noise:
        raise UsageError(
            f"a log of a run with the noise {log.noise!r} cannot be replayed with {noise.name!r}: "
            "give replay the noise of the run"
        )
    if log.chunk is not None:
        noise = copy.copy(noise)  # the caller may use it with another chunk
    if (chunk := noise.agreed_chunk(log.chunk)) != log.chunk:
        raise UsageError(
            f"a log of a run with chunk = {log.chunk} cannot be replayed by noise with chunk = "
            f"{chunk}: give replay the noise of the run"
        )
    steps = log.steps if steps is None else require_whole("steps", steps, 0, log.steps)
    tensors = tensors_of(parameters)
    require_movable(tensors)
    groups = perturbed_groups(log, tensors, noise)
    for entries, rates, decays in islice(log.updates(), steps):
        if log.restore == "rounded":  # the rounding errors of these passes are part of the weights
            for entry in entries:
                for offset in filter(None, OFFSETS[log.estimator]):
                    for weights in groups:
                        weights.perturb(entry.seed, offset)
        for weights, own_rates, decay in zip(groups, rates, decays, strict=True):
            weights.update(own_rates, decay)
            weights.release()


def perturbed_groups(
    log: StepLog, parameters: Sequence[torch.Tensor], noise: Noise
) -> list[PerturbedWeights]:
    """Return a ``PerturbedWeights`` with the settings of ``log`` for each parameter group.

    Raises:
        UsageError: the weights do not support the settings, or their number differs from the log's.
    """
    groups = log.groups or [GroupLog(len(parameters), log.eps, 0.0)]
    if sum(group.tensors for group in groups) != len(parameters):
        raise UsageError(
            f"{len(parameters)} parameters for a log of {sum(group.tensors for group in groups)}: "
            "give the trained parameters, group by group"
        )
    elements = sum(parameter.numel() for parameter in parameters)
    if log.elements not in (0, elements):
        raise UsageError(
            f"parameters of {elements} weights for a log of {log.elements}: give only the weights "
            "perturbed in the run, without frozen ones"
        )
    if log.structure not in (0, structure_of(parameters)):
        raise UsageError(
            "the shapes or number formats of the parameters, or their order, differ from the log's:"
            " give the trained parameters of the same model in the run's number format"
        )
    found, rest = [], list(parameters)
    for number, group in enumerate(groups):
        own, rest = rest[: group.tensors], rest[group.tensors :]
        # a noise keeps masks or numbers between passes; they belong to one group
        noise_of_group = noise if number == 0 else copy.copy(noise)
        found.append(
            PerturbedWeights(own, log.restore, group.eps, log.chunk, noise_of_group, number)
        )
        found[-1].prepare()
    return found


def step_entries(estimates: Sequence[GradientEstimate], lr: float) -> list[Entry]:
    """Return the entries of one step."""
    return [Entry(estimate.seed, estimate.projected_gradient, lr) for estimate in estimates]
