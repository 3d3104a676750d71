"""The base class of the zeroth-order optimizers: estimates, updates, and state to resume from."""

import copy
import math
import os
import struct
import warnings
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from repro.core.errors import UsageError
from repro.core.signals import uninterrupted
from repro.core.validation import (
    require_choice,
    require_not_negative,
    require_positive,
    require_positive_int,
    whole_seed,
)
from repro.methods.default_noise import default_noise
from repro.methods.log import GroupLog, StepLog, perturbed_groups, step_entries, structure_of
from repro.methods.noise import Noise
from repro.methods.perturbed_weights import TORN, Restore, default_restore
from repro.methods.rules import OFFSETS, Estimator, Rule, sgd
from repro.methods.step_info import (
    DivergedError,
    GradientEstimate,
    PhaseTimer,
    StepInfo,
    require_finite,
)
from repro.methods.watch import FirstStep, SharedRandomness

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from repro.methods.processes import Processes

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""


class ZerothOrder(torch.optim.Optimizer):
    """An optimizer with a seeded sequence of perturbations and a log of its estimates."""

    _is_stepping = False  # also of an optimizer that was pickled before it had one
    draws_signs = False
    """Whether the noise is random signs, rather than Gaussian, unless another is given."""

    def __init__(
        self,
        groups: Sequence[Mapping[str, Any]],
        bp_params: Sequence[torch.Tensor] = (),
        *,
        lr: float,
        eps: float,
        clip: float,
        perturbations: int,
        seed: int,
        restore: Restore | None,
        chunk: int | None,
        noise: Noise | None,
        timed: bool,
        weight_decay: float = 0.0,
        estimator: Estimator = "two-sided",
        rule: Rule = sgd,
        group: "ProcessGroup | None" = None,
    ) -> None:
        """Check the settings of all methods; see their own constructors.

        The parameters in ``groups`` (see ``parameter_groups``) are trained by zeroth-order steps,
        ``bp_params`` by backpropagation with the settings of the first group.

        Raises:
            UsageError: the learning rate, eps, weight decay or clip is out of range; or ``restore``
                or ``noise`` does not support the weights.
        """
        require_not_negative("learning rate lr", lr)
        eps = float(require_positive("perturbation scale eps", eps))
        require_not_negative("weight_decay", weight_decay)
        self.clip = clip
        require_choice("estimator", estimator, OFFSETS)
        _require_kinds(rule, noise)
        self.rule, self.seed, self.timed = rule, whole_seed(seed), timed
        own = [_with_settings(g, lr=lr, eps=eps, weight_decay=weight_decay) for g in groups]
        parts: list[list[torch.Tensor]] = [
            [entry[1] if isinstance(entry, tuple) else entry for entry in group["params"]]
            for group in own
        ]
        self.zo_params: list[torch.Tensor] = [p for part in parts for p in part]
        self.bp_params = list(bp_params)
        restore = default_restore(self.zo_params) if restore is None else restore
        if chunk is not None:
            require_positive_int("chunk", chunk)
        if noise is not None and chunk is not None:
            noise = copy.copy(noise)  # the caller may give it to an optimizer with another chunk
        self.noise = noise or default_noise(self.zo_params, restore, chunk, signs=self.draws_signs)
        chunk = self.noise.agreed_chunk(chunk)
        logged = [
            GroupLog(len(part), group["eps"], group["weight_decay"])
            for part, group in zip(parts, own, strict=True)
        ]
        # logged as before there were groups, so that older states and logs still fit
        usual = logged == [GroupLog(len(self.zo_params), eps, 0.0)]
        self.log = StepLog(
            eps,
            perturbations,
            chunk,
            restore,
            self.noise.name,
            estimator,
            () if usual else logged,
            sum(parameter.numel() for parameter in self.zo_params),
            structure_of(self.zo_params),
        )
        self.last: StepInfo | None = None
        self._seeds = torch.Generator("cpu").manual_seed(self.seed)
        self._subspace_steps = self.noise.subspace_steps
        own[0]["params"] = [*own[0]["params"], *self.bp_params]
        super().__init__(own, {"lr": lr, "eps": eps, "weight_decay": weight_decay})
        trained = [*self.zo_params, *self.bp_params]
        self._processes: Processes | None = None
        if group is not None:
            from repro.methods import processes  # PyTorch may be built without it

            self._processes = processes.Processes(group, trained)
        else:
            _warn_of_other_processes()
        self._weights = perturbed_groups(self.log, self.zo_params, self.noise)
        device = trained[0].device
        self._randomness = SharedRandomness(device)
        self._first: FirstStep | None = FirstStep(trained, device)
        self._steps_without = 0
        """Number of latest steps in which no perturbation changed the loss."""
        self._is_stepping = False

    @abstractmethod
    def step(self, closure: Closure | Sequence[Closure]) -> float:  # type: ignore[override]
        """Do one step and return the mean of its losses."""

    @property
    def eps(self) -> float:
        """The perturbation scale, the same in all steps, as the log holds it."""
        return self.log.eps

    @property
    def estimator(self) -> Estimator:
        """The estimator, the same in all steps, as the log holds it."""
        return self.log.estimator

    @property
    def _distance(self) -> float:
        """Distance between the two weights of an estimate along z, such as 2 eps."""
        first, last = OFFSETS[self.estimator]
        return (first - last) * self.eps

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - of any attribute
        """Refuse a change of a setting: it would have no effect, or none on the log."""
        if name in _FIXED and "_is_stepping" in self.__dict__:
            how = "it is fixed when the optimizer is made; make a new optimizer"
            if name == "lr":
                how = "set optimizer.param_groups[0]['lr'], as PyTorch's schedulers do"
            raise UsageError(f"{name} = {value!r}: {how}")
        if name == "clip" and value != math.inf:
            value = float(require_positive("gradient clip g_clip", value))
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return everything that a copy needs; torch's method leaves out what it does not know."""
        state = self.__dict__.copy()
        state.pop("step", None)  # a scheduler's wrapper, which steps the original
        state["_is_stepping"] = False  # a copy made in a closure
        return state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse groups after construction: a log covers the same parameters from start to end.

        Raises:
            UsageError: the optimizer already exists.
        """
        if hasattr(self, "_weights"):  # torch's constructor adds the first groups
            msg = "add_param_group: the parameters are fixed when the optimizer is made; make a new"
            raise UsageError(f"{msg} optimizer with all groups")
        super().add_param_group(param_group)

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments with their defaults filled in."""
        group = self.param_groups[0]
        return {
            "lr": group["lr"],
            "eps": self.eps,
            "clip": self.clip,
            "perturbations": self.log.perturbations,
            "weight_decay": group["weight_decay"],
            "seed": self.seed,
            "restore": self.log.restore,
            "chunk": self.log.chunk,
            "noise": self.log.noise,
            "estimator": self.estimator,
            "rule": self.rule.__name__ if hasattr(self.rule, "__name__") else repr(self.rule),
            "group": None if self._processes is None else f"{self._processes.size} processes",
            "timed": self.timed,
        }

    def __repr__(self) -> str:
        """Show every setting, and the number and settings of each group's weights."""
        settings = self.settings
        lines = [f"{name}={value!r}," for name, value in settings.items()]
        for group, weights in zip(self.param_groups, self._weights, strict=True):
            own = ", ".join(f"{name}={group[name]!r}" for name in ("lr", "eps", "weight_decay"))
            lines.append(f"{_size(weights.parameters)} by zeroth order: {own},")
        if self.bp_params:
            own = ", ".join(f"{name}={settings[name]!r}" for name in ("lr", "weight_decay"))
            lines.append(f"{_size(self.bp_params)} by backpropagation: {own},")
        return "\n    ".join([f"{type(self).__name__}(", *lines]) + "\n)"

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, without the weights."""
        own = {
            "seeds": self._seeds.get_state(),
            # a copy: while a view of its bytes exists, the log cannot grow
            "log": torch.from_numpy(np.array(self.log.data, np.uint8)),
            "settings": self.log.settings | self._own_settings,
            "seed": self.seed,
            # of a rule that remembers earlier steps
            "rule": self.rule.state_dict() if hasattr(self.rule, "state_dict") else {},
        }
        return {**super().state_dict(), **own}

    @property
    def _own_settings(self) -> dict[str, Any]:
        """The settings that decide a run's steps and are not in its log."""
        rule = getattr(self.rule, "__name__", type(self.rule).__name__)
        return {
            "method": type(self).__name__,
            "rule": rule,
            "clip": self.clip,
            "subspace_steps": self._subspace_steps,
        }

    def _mean(self, losses: Sequence[float]) -> float:
        """Return the mean of the closures' losses; in the first step warn if they are equal."""
        if self._first is not None and len(losses) > 1 and len(set(losses)) == 1:
            warnings.warn(
                f"all {len(losses)} closures returned the loss {losses[0]!r}. Closures made in a "
                "loop use the batch of its last turn: bind each, as in lambda x=x, y=y: ...",
                stacklevel=5,
            )
        return sum(losses) / len(losses)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``.

        Raises:
            UsageError: the state belongs to a run with other settings; one log cannot hold both.
        """
        state = dict(state_dict)
        own = {"state", "param_groups", "seeds", "seed", "log", "settings", "rule"}
        if state.keys() != own:
            differing = ", ".join(sorted(state.keys() ^ own))
            raise UsageError(
                f"the state is not of {type(self).__name__}: it lacks, or has in addition, "
                f"{differing}; load it into the method that wrote it"
            )
        mine, its = self.log.settings | self._own_settings, state.pop("settings")
        if its != mine:
            differing = ", ".join(
                f"{name} = {its.get(name)!r} instead of {mine.get(name)!r}"
                for name in sorted({*mine, *its})
                if its.get(name) != mine.get(name)
            )
            raise UsageError(
                f"the state is from a run with {differing}; make the optimizer with the run's "
                "settings"
            )
        for group, its_group in zip(self.param_groups, state["param_groups"], strict=False):
            names, its_names = (list(of.get("param_names") or ()) for of in (group, its_group))
            # a wrapper such as torch.compile gives other names to the same parameters
            if names != its_names and sorted(names) == sorted(its_names):
                name, its_name = next(
                    (a, b) for a, b in zip(names, its_names, strict=True) if a != b
                )
                raise UsageError(
                    f"the state is from a run with the parameter {its_name!r} where this optimizer "
                    f"has {name!r}: give the parameters in the run's order"
                )
        seed, remembered = state.pop("seed"), state.pop("rule")  # a resumed run has its own seed
        seeds, log = state.pop("seeds"), state.pop("log")
        super().load_state_dict(state)  # first, since it refuses groups that do not fit
        if remembered:
            cast("Any", self.rule).load_state_dict(remembered)
        self.__dict__["seed"] = seed
        self._seeds.set_state(seeds.cpu())  # loaders move all tensors to the device
        self.log.data = bytearray(log.cpu().numpy())

    def _learning_rates(self) -> list[float]:
        """Return the learning rate of each group in this step; a schedule may start or end at 0.

        Raises:
            UsageError: a rate is negative, not finite or would decay weights beyond 0; or another
                setting of a group was changed after construction.
        """
        for group, weights in zip(self.param_groups, self._weights, strict=True):
            require_not_negative("learning rate lr", group["lr"])
            logged = self.log.groups[weights.number] if self.log.groups else None
            decay = logged.weight_decay if logged else 0.0
            if (group["eps"], group["weight_decay"]) != (weights.eps, decay):
                raise UsageError(
                    f"eps = {group['eps']!r}, weight_decay = {group['weight_decay']!r} in parameter"
                    f" group {weights.number}: the optimizer was made with {weights.eps!r} and "
                    f"{decay!r}, which its log holds for all steps; make a new optimizer"
                )
            if group["lr"] * decay >= 1:
                raise UsageError(
                    f"lr x weight_decay = {group['lr'] * decay!r}: must be below 1, because "
                    "the decay would change the signs of the weights; lower one of them"
                )
        # a schedule may set NumPy numbers; float32 ones would round other than the log's float64
        return [float(group["lr"]) for group in self.param_groups]

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Restore the weights if the block fails, and free the memory shared by its passes.

        Raises:
            UsageError: a weight has another number format, shape or layout than at construction,
                or another step of this optimizer has not ended.
            ReproError: an earlier error left the weights between two states.
        """
        if self._is_stepping:
            raise UsageError(
                "step() was called before another step of this optimizer ended, in its closure or "
                "in another thread: an optimizer does one step at a time"
            )
        self._is_stepping = True
        try:
            with self._restored():
                yield
        finally:
            self._is_stepping = False

    @contextmanager
    def _restored(self) -> Iterator[None]:
        for weights in self._weights:
            weights.require_ready()
            if not self.log.data:  # they may have been loaded since the optimizer was made
                weights.prepare()
        trained = self.zo_params or self.bp_params
        self._randomness.device = trained[0].device  # the model may have moved
        try:
            yield
        except BaseException as error:
            with uninterrupted():
                for weights in self._weights:
                    weights.restore()
            torch.clear_autocast_cache()
            if any(weights.torn for weights in self._weights):
                error.add_note(TORN)
            raise
        finally:
            for weights in self._weights:
                weights.release()
            self._randomness.forget()
            if self._first is not None:
                self._first.forget()

    def _estimate(
        self, passes: Sequence[Callable[[], float]], timer: PhaseTimer
    ) -> GradientEstimate:
        """Return the next estimate, and leave the weights where its last loss was taken.

        Args:
            passes: functions that compute the losses at the estimator's offsets, in their order.
            timer: records the time of the perturbations.

        Raises:
            ReproError: a loss is not finite; the message names the step, the seed and the last g.
        """
        seed = self._next_seed()
        losses: list[float] = []
        offsets = OFFSETS[self.estimator]
        for offset, loss in zip(offsets, passes, strict=True):
            if offset:
                with timer("perturb"), uninterrupted():
                    for weights in self._weights:
                        weights.perturb(seed, offset)
                torch.clear_autocast_cache()  # it holds casts of the unperturbed weights
            value = loss()
            if self._processes is None:  # with several processes, all of them must fail alike
                self._finite(value, offset, seed)
            losses.append(value)
        if self._processes is not None:
            losses = self._processes.mean(seed, losses)
            for offset, value in zip(offsets, losses, strict=True):
                self._finite(value, offset, seed)
        gradient = (losses[0] - losses[1]) / self._distance
        clipped = max(-self.clip, min(self.clip, gradient))
        return GradientEstimate(seed, losses[0], losses[1], clipped)

    def _next_seed(self) -> int:
        """Draw the seed of an estimate.

        The seeds of a period of the noise's ``subspace_steps`` share their upper 16 bits. The log
        holds them, so a resumed run has the same.
        """
        # on the generator's device, whatever the default device is
        seed = int(torch.randint(1 << 32, (), generator=self._seeds, device="cpu"))
        if not self._subspace_steps:
            return seed
        last = self.log.last.seed if self.log.last else self.seed
        if self.log.steps % self._subspace_steps == 0:
            last = zlib.crc32(struct.pack("<Q", last % (1 << 64)))
        return (last & 0xFFFF_0000) | (seed & 0xFFFF)

    def _call(self, closure: Closure) -> torch.Tensor | float:
        """Return the loss of a batch; in the first step, watch its computation."""
        if self._first is None:
            return closure()
        self._first.closure = closure
        with self._first:
            loss = closure()
        self._first.note_loss(loss)
        return loss

    def _end_first_step(self) -> None:
        """Warn or raise an error before the first update of a weight."""
        if self._first is not None:
            self._check_order(list(self._first.order))
            self._first.warn(self.zo_params, self.bp_params, self._distance)
            self._first = None

    def _check_order(self, order: Sequence[int]) -> None:
        """Refuse a wrong order of the parameters' use; the base class accepts any order."""

    def _factors(self, estimates: Sequence[GradientEstimate]) -> list[float]:
        """Return the factor of each estimate by the update rule.

        Raises:
            UsageError: the rule does not return a number for each.
        """
        factors = self.rule(estimates)
        try:
            found = [float(factor) for factor in factors]
        except (TypeError, ValueError):
            found = []
        if len(found) != len(estimates):
            raise UsageError(
                f"the update rule returned {factors!r} for {len(estimates)} estimates: it must "
                "return a list with one number for each"
            )
        return found

    def _remember(self, estimates: Sequence[GradientEstimate]) -> None:
        """Update a method's own state as part of the update; the base class has none."""

    def _finite(self, loss: float, offset: int, seed: int) -> None:
        name = {1: "l+", 0: "l", -1: "l-"}[offset]
        which = f"step {self.log.steps + 1}: {name} with perturbation seed {seed}"
        last = self.log.last
        require_finite(loss, which, f" after g = {last.gradient:.6g}" if last else "")

    def _update(
        self, estimates: Sequence[GradientEstimate], lrs: Sequence[float], timer: PhaseTimer
    ) -> None:
        """Restore the weights, update them by all estimates, and log the step.

        Raises:
            DivergedError: lr g is beyond the weights' format, so no update can be made.
        """
        ruled = [
            replace(estimate, projected_gradient=factor)
            for estimate, factor in zip(estimates, self._factors(estimates), strict=True)
        ]
        rates, decays = self.log.step_rates(step_entries(ruled, lrs[0]), lrs)
        # before any weight moves: add_ would refuse such a factor in the middle of the update, and
        # exact passes would make infinite weights
        for weights, own_rates, decay in zip(self._weights, rates, decays, strict=True):
            largest = weights.largest_rate(decay)
            for seed, rate in own_rates:
                if not abs(rate) <= largest:  # also if it is not a number
                    raise DivergedError(
                        f"step {self.log.steps + 1}: learning rate times g = {rate:.6g} with "
                        f"perturbation seed {seed} exceeds {largest:.6g}, beyond which the number "
                        "format of the weights cannot hold the update: lower the learning rate or "
                        "the gradient clip"
                    )
        self._warn_if_nothing_moves(estimates)
        with timer("update"), uninterrupted():
            for weights, own_rates, decay in zip(self._weights, rates, decays, strict=True):
                weights.update(own_rates, decay)
            self.log.append(ruled, *lrs)
            self._remember(estimates)
        torch.clear_autocast_cache()

    def _warn_if_nothing_moves(self, estimates: Sequence[GradientEstimate]) -> None:
        """Warn once if in several steps in a row no perturbation has changed the loss."""
        equal = all(estimate.loss_plus == estimate.loss_minus for estimate in estimates)
        self._steps_without = self._steps_without + 1 if equal else 0
        if self._steps_without == _WITHOUT:
            warnings.warn(
                f"in {_WITHOUT} steps in a row both losses of every estimate were equal "
                f"({estimates[0].loss_plus!r}), so these teach nothing: the closure computes with "
                f"other tensors than the trained ones, eps = {self.eps:g} moves the loss by less "
                "than its rounding, or the loss no longer depends on the weights",
                NothingMovesWarning,
                stacklevel=4,
            )


_FIXED = {
    *("lr", "eps", "perturbations", "weight_decay", "seed", "restore", "chunk", "noise"),
    *("estimator", "rule", "partition", "beta", "floor"),
}
"""Settings fixed at construction."""
_WITHOUT = 20
"""Number of steps in a row without a change of the loss after which there is a warning."""


class NothingMovesWarning(UserWarning):
    """The perturbations do not change the loss."""


def _warn_of_other_processes() -> None:
    """Warn if ``torch.distributed`` runs several processes, which then train apart."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    if not distributed.is_initialized():
        # torchrun sets it; without a process group, WORLD is None and looks like no group
        if (started := os.environ.get("WORLD_SIZE", "1")) not in ("", "1"):
            warnings.warn(
                f"WORLD_SIZE is {started}, but torch.distributed is not initialised: each process "
                "trains weights of its own. To train one model together, call "
                "torch.distributed.init_process_group() first, then give "
                "group=torch.distributed.group.WORLD",
                stacklevel=4,
            )
        return
    if (processes := distributed.get_world_size()) > 1:
        warnings.warn(
            f"{processes} processes, but no group: each trains weights of its own. To train one "
            "model together, give group=torch.distributed.group.WORLD",
            stacklevel=4,
        )


def _require_kinds(rule: object, noise: object) -> None:
    """Check arguments for which a name or a class may be given by mistake.

    Raises:
        UsageError: one is of the wrong kind.
    """
    if not callable(rule):
        raise UsageError(f"rule = {rule!r}: give a function of repro.methods.rules, such as sgd")
    if not (noise is None or isinstance(noise, Noise)):
        msg = f"noise = {noise!r}: give an object of a noise class, such as RademacherNoise()"
        raise UsageError(msg)


def micro_batches(closure: Closure | Sequence[Closure]) -> Sequence[Closure]:
    """Return the closures of a step.

    Raises:
        UsageError: there is no closure, or something else is given.
    """
    several = isinstance(closure, Iterable) and not isinstance(closure, torch.Tensor)
    closures: list[Any] = list(closure) if several else [closure]  # type: ignore[arg-type]
    if not closures:
        raise UsageError("step([]): give a closure, or one for each micro-batch")
    if wrong := [type(one).__name__ for one in closures if not callable(one)]:
        raise UsageError(
            f"step() with a {wrong[0]}: give a closure that computes the loss, as in "
            "step(lambda: cross_entropy(model(x), y))"
        )
    return closures


def _with_settings(group: Mapping[str, Any], **common: float) -> dict[str, Any]:
    """Return a copy of ``group`` with every setting, each in its range."""
    own = {**common, **group, "params": list(group["params"])}
    own["lr"] = float(require_not_negative("learning rate lr", own["lr"]))
    own["eps"] = float(require_positive("perturbation scale eps", own["eps"]))
    own["weight_decay"] = float(require_not_negative("weight_decay", own["weight_decay"]))
    return own


def _size(parameters: Sequence[torch.Tensor]) -> str:
    weights = sum(parameter.numel() for parameter in parameters)
    return f"{weights:,} weights in {len(parameters):,} tensors"
