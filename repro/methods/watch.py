"""Equal random numbers in every pass of a step, and warnings in the first step of a run."""

import ctypes
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeGuard

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from repro.core.errors import UsageError


class SharedRandomness:
    """Rewinds PyTorch's global generators, of the host and of the weights' device.

    Different dropout masks would change the losses of two passes by far more than the perturbation
    does, and the difference is divided by 2 eps. With equal masks the estimate is the derivative of
    the masked network's loss.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        """Device of the weights; it may change between two steps."""
        self._start: list[torch.Tensor] = []

    def rewind(self) -> None:
        """Restore the generators' state from the first call since ``forget``."""
        if not self._start:
            self._start = random_state(self.device)
            return
        host, *others = self._start
        torch.default_generator.set_state(host)
        for state in others:
            torch.get_device_module(self.device).set_rng_state(state, self.device)

    def forget(self) -> None:
        """End the step; the next step has new random numbers."""
        self._start = []


def random_state(device: torch.device) -> list[torch.Tensor]:
    """Return the state of the host's generator and, on a GPU, of the device's."""
    host = torch.default_generator.get_state()
    if device.type in ("cpu", "meta"):
        return [host]
    return [host, torch.get_device_module(device).get_rng_state(device)]


class PassesDifferWarning(UserWarning):
    """A layer does not compute the same function in every pass of a step."""


class UnusedParameterWarning(UserWarning):
    """A loss does not use some of the parameters that noise moves."""


class CoarseLossWarning(UserWarning):
    """A loss is in half precision, so the difference of two is a multiple of its spacing."""


_READS = {"__array__", "__bool__", "__float__", "__int__", "data_ptr", "item", "numpy", "tolist"}
"""Functions that read a tensor without returning one."""
_HIDDEN = (torch.jit.ScriptModule, nn.DataParallel)
"""Modules that compute out of sight of a ``TorchFunctionMode``: compiled, or in other threads."""
_SAMPLE = 1024
"""Elements of a tensor that are compared."""


class _DataWatch:
    """Notices a closure that computes with other data in another call of the same step.

    It compares what the first operation on a parameter takes. Nothing perturbed has entered the
    computation by then, so a difference comes from the data.
    """

    def __init__(self) -> None:
        self.varies = False
        """Whether a closure had other data."""
        self._closure: object = None
        self._is_noted = False
        self._former: dict[int, list[bytes]] = {}

    def start(self, closure: object) -> None:
        """Begin a call of ``closure``."""
        self._closure, self._is_noted = closure, False

    def note(self, taken: Sequence[object]) -> None:
        """Note what an operation on a parameter takes besides parameters and buffers."""
        if self._is_noted:
            return
        self._is_noted = True
        found = [_fingerprint(one) for one in taken if _is_plain(one)]
        self.varies |= self._former.setdefault(id(self._closure), found) != found

    def forget(self) -> None:
        """End a step: the next one has other data."""
        self._former.clear()


def _is_plain(value: object) -> TypeGuard[torch.Tensor]:
    """Return whether ``value`` is a tensor with data of its own, which can be read."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and not (value.is_meta or value.is_nested or value.is_quantized or value.is_complex())
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def _fingerprint(tensor: torch.Tensor) -> bytes:
    """Return the shape and format of a tensor with the bits of some of its elements."""
    described = f"{tuple(tensor.shape)} {tensor.dtype} {tensor.device}".encode()
    if not tensor.numel():
        return described
    flat = tensor.detach().reshape(-1)
    some = flat[:: -(-len(flat) // _SAMPLE)].contiguous().cpu().view(torch.uint8)
    return described + bytes(some.tolist())


class FirstStep(TorchFunctionMode):
    """A context for the losses of a first step; it changes them by rounding at most.

    It raises ``UsageError`` if the loss calls ``backward()``. It records the order in which
    parameters are used, the modules that draw random numbers, the modules that change their
    buffers, whether a closure changes a parameter, and whether it computes with the same data
    whenever it is called.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], device: torch.device) -> None:
        super().__init__()
        self.order: dict[int, None] = {}
        """The ``id`` of each used parameter, in order of first use."""
        self._trained = list(parameters)
        self._parameters: set[int] = set()
        """Their ``id``, which differs in a copy."""
        self._device = device
        self._random: dict[nn.Module | None, None] = {}  # None means the closure itself
        self._changed: dict[nn.Module, None] = {}
        self._outermost: dict[nn.Module, None] = {}
        self._running: list[tuple[nn.Module, list[int]]] = []
        self._state = b""
        self._hooks = ExitStack()
        self.closure: object = None
        """The closure that is about to be called."""
        self._data = _DataWatch()
        self._computed = False
        """Whether a closure has computed with a tensor; else its loss comes from elsewhere."""
        self._is_hidden = False
        """Whether a module ran whose use of parameters cannot be seen."""
        self._own_versions: list[int] = []
        """Number of in-place changes of each trained parameter before a closure."""
        self._moved: dict[int, None] = {}
        """Places of the trained parameters changed by a closure."""
        self._coarse: torch.Tensor | None = None
        """A loss in half precision."""

    def __enter__(self) -> Self:
        """Start watching; compiled modules run eagerly, so that their calls can be seen."""
        if "torch._dynamo" in sys.modules:  # nothing else compiles, and importing it takes seconds
            self._hooks.enter_context(torch.compiler.set_stance("force_eager"))
            self._hooks.enter_context(warnings.catch_warnings())
            # PyTorch warns of global hooks on compiled modules; these are our own
            warnings.filterwarnings("ignore", "Using `torch.compile", UserWarning)
        self._parameters = {id(parameter) for parameter in self._trained}
        self._own_versions = _changes(self._trained)
        self._state = self._random_numbers()
        self._data.start(self.closure)
        self._hooks.enter_context(hooks.register_module_forward_pre_hook(self._before))
        after = hooks.register_module_forward_hook(self._after, always_call=True)
        self._hooks.enter_context(after)
        return super().__enter__()  # type: ignore[no-untyped-call,no-any-return]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop watching."""
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._hooks.close()
        self._note_random_numbers()
        self._running.clear()
        now = zip(self._own_versions, _changes(self._trained), strict=True)
        self._moved.update({place: None for place, (old, new) in enumerate(now) if old != new})

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401 - of PyTorch's protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - depends on the function
        """Call ``func`` and note the parameters it computes with."""
        if func is torch.Tensor.backward:
            return self._backward(args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        # else it is a query, such as of a shape or a format
        if isinstance(result, torch.Tensor | tuple) or getattr(func, "__name__", "") in _READS:
            taken = [
                one
                for argument in (*args, *(kwargs or {}).values())
                for one in (argument if isinstance(argument, list | tuple) else (argument,))
            ]
            used = [id(one) for one in taken if id(one) in self._parameters]
            self.order.update({key: None for key in used if key not in self.order})
            self._computed |= any(isinstance(one, torch.Tensor) for one in taken)
            if used:
                buffers = {
                    id(b) for module, _ in self._running for b in module.buffers(recurse=False)
                }
                self._data.note([one for one in taken if id(one) not in self._parameters | buffers])
        return result

    def _backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Let a closure train another model, but not the one whose loss it computes."""
        before = [p.grad for p in self._trained]
        for parameter in self._trained:
            parameter.grad = None
        try:
            if torch.is_grad_enabled():
                torch.Tensor.backward(*args, **kwargs)  # type: ignore[no-untyped-call]
            reached = any(p.grad is not None for p in self._trained)
        finally:
            for parameter, grad in zip(self._trained, before, strict=True):
                parameter.grad = grad
        if reached or not torch.is_grad_enabled():
            raise UsageError(
                "the closure calls backward(): zeroth-order methods compute no gradient from it, "
                "and ElasticZO calls backward() itself; return the loss and do nothing else, or "
                "train another model in it under torch.enable_grad()"
            )

    def forget(self) -> None:
        """End a step, which may have failed: the next one has other closures and data."""
        self._data.forget()

    def note_loss(self, loss: object) -> None:
        """Note what a closure returned."""
        if isinstance(loss, torch.Tensor) and loss.dtype in (torch.bfloat16, torch.float16):
            self._coarse = loss.detach()

    def warn(
        self,
        perturbed: Sequence[torch.Tensor],
        backpropagated: Sequence[torch.Tensor],
        distance: float,
    ) -> None:
        """Warn about passes that differ, coarse losses, and parameters that no loss uses.

        Args:
            perturbed: the parameters that noise moves.
            backpropagated: the others, which a gradient moves.
            distance: divisor of the difference of two losses, such as 2 eps.
        """
        if self._coarse is not None:
            value, kind = float(self._coarse), torch.finfo(self._coarse.dtype)
            binade = 2.0 ** math.frexp(value)[1] / 2 if value else 0.0
            spacing = max(kind.smallest_normal, binade) * kind.eps
            warnings.warn(
                f"the loss is in {kind.dtype}, whose numbers near {value:.3g} are {spacing:.2g} "
                f"apart, so the projected gradient has steps of {spacing / distance:.2g} and is "
                "often 0. Compute it in float32, as in cross_entropy(logits.float(), y).",
                CoarseLossWarning,
                stacklevel=2,
            )
        unused = [p for p in perturbed if id(p) not in self.order]
        if unused and self._computed and not self._is_hidden:
            warnings.warn(
                f"the first step's loss is computed without {len(unused)} of {len(perturbed)} "
                f"trained parameters ({self._parameter_names(unused)}). Noise moves them, too: "
                "leave them out unless other batches use them, and check that the closure runs "
                "the model whose parameters are trained.",
                UnusedParameterWarning,
                stacklevel=2,
            )
        unused = [p for p in backpropagated if id(p) not in self.order]
        if unused and self._computed and not self._is_hidden:
            warnings.warn(
                f"the first step's loss is computed without {len(unused)} of "
                f"{len(backpropagated)} backpropagated parameters "
                f"({self._parameter_names(unused)}), so they are not trained. If layers were "
                "replaced after the optimizer was made, make a new one.",
                UnusedParameterWarning,
                stacklevel=2,
            )
        if self._moved:
            names = self._parameter_names([self._trained[place] for place in self._moved])
            warnings.warn(
                f"the closure changes trained parameters ({names}), as an embedding with max_norm "
                "does. The weights then come back to other values than they had, and a replay of "
                "the log does not give the run's weights.",
                PassesDifferWarning,
                stacklevel=2,
            )
        if self._data.varies:
            warnings.warn(
                "the closure computes with other data in each pass of a step, so the difference of "
                "the losses comes from the data, not from the perturbation. Draw the batch before "
                "step() and let the closure only compute its loss.",
                PassesDifferWarning,
                stacklevel=2,
            )
        if self._random:
            warnings.warn(
                f"random numbers are drawn in a forward pass by {self._names(self._random)}. All "
                "passes of a step use the same ones, so a step minimises the loss under one draw "
                "of them, such as one dropout mask, as in backpropagation. If it is dropout, "
                "model.eval() trains without it.",
                PassesDifferWarning,
                stacklevel=2,
            )
        if self._changed:
            warnings.warn(
                f"every forward pass changes the buffers of {self._names(self._changed)}, such as "
                "running statistics of batch norm, also at perturbed weights. Call .eval() on "
                "these layers to keep them as they are.",
                PassesDifferWarning,
                stacklevel=2,
            )

    def _before(self, module: nn.Module, _args: object) -> None:
        self._note_random_numbers()
        self._is_hidden |= isinstance(module, _HIDDEN)
        if not self._running:
            self._outermost.setdefault(module)
        self._running.append((module, _versions(module)))

    def _after(self, module: nn.Module, _args: object, _output: object) -> None:
        self._note_random_numbers()
        while self._running:
            innermost, before = self._running.pop()
            if innermost is module:
                if _versions(module) != before:
                    self._changed.setdefault(module)
                return

    def _note_random_numbers(self) -> None:
        """Attribute random numbers drawn since the last call to the module that runs now."""
        now = self._random_numbers()
        if now != self._state:
            self._random.setdefault(self._running[-1][0] if self._running else None)
            self._state = now

    def _random_numbers(self) -> bytes:
        states = random_state(self._device)  # by address: a tracing mode may intercept numpy()
        return b"".join(ctypes.string_at(state.data_ptr(), state.numel()) for state in states)

    def _parameter_names(self, parameters: Sequence[torch.Tensor]) -> str:
        known = {id(p): name for root in self._outermost for name, p in root.named_parameters()}
        shapes = [f"of shape {tuple(p.shape)}" for p in parameters]
        names = [known.get(id(p), shape) for p, shape in zip(parameters, shapes, strict=True)]
        return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")

    def _names(self, modules: Iterable[nn.Module | None]) -> str:
        known = {module: name for root in self._outermost for name, module in root.named_modules()}
        names = [
            "the closure"
            if module is None
            else f"{known.get(module) or 'the model'} ({type(module).__name__})"
            for module in modules
        ]
        shown = ", ".join(names[:3])
        return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _versions(module: nn.Module) -> list[int]:
    return _changes(module.buffers(recurse=False))


def _changes(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return the number of in-place changes of each tensor."""
    # inference tensors do not count their changes
    return [tensor._version for tensor in tensors if not tensor.is_inference()]
