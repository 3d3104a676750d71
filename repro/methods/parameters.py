"""Select the parameters that a method trains."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from repro.core.errors import UsageError
from repro.core.partition import children_of, partition_index

Parameters = (
    Iterable[torch.Tensor] | Iterable[tuple[str, torch.Tensor]] | Iterable[Mapping[str, Any]]
)
"""As for torch's optimizers: ``parameters()``, ``named_parameters()`` or groups of either."""

GROUP_SETTINGS = ("lr", "eps", "weight_decay")
"""Settings that may differ between parameter groups."""
_FORMATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Number formats in which PyTorch adds."""


def _is_no_collection(value: object) -> bool:
    single = isinstance(value, torch.nn.Module | torch.Tensor | str)
    return single or not isinstance(value, Iterable)


def tensors_of(parameters: Any) -> list[torch.Tensor]:  # noqa: ANN401 - checked here
    """Return tensors given with or without their names.

    Raises:
        UsageError: something else is given, such as the model.
    """
    if _is_no_collection(parameters):
        kind = type(parameters).__name__
        raise UsageError(f"parameters = {kind}: give the parameters, as in model.parameters()")
    found = [
        given[1] if isinstance(given, tuple) and len(given) == 2 else given for given in parameters
    ]
    for given in found:
        if not isinstance(given, torch.Tensor):
            raise UsageError(
                f"parameters hold {type(given).__name__}: give tensors, as model.parameters() does"
            )
    return found


def uncompiled(model: Any) -> torch.nn.Module:  # noqa: ANN401 - checked here
    """Return the model that ``torch.compile`` wraps, which has the same parameters, or ``model``.

    Raises:
        UsageError: it is no model.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"model = {type(model).__name__}: give the model itself; a partition point splits its "
            "parameters"
        )
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, torch.nn.Module) else model


def trainable(
    parameters: Iterable[torch.Tensor] | Iterable[tuple[str, torch.Tensor]], *, flat: bool = True
) -> list[torch.Tensor]:
    """Return the parameters that need a gradient, each once.

    Raises:
        UsageError: there is no such parameter; these are parameter groups; or one is complex or, if
            they must be ``flat``, not contiguous.
    """
    given: Any = parameters if _is_no_collection(parameters) else list(parameters)
    if isinstance(given, list) and any(isinstance(one, Mapping) for one in given):
        raise UsageError("parameters = groups: give the parameters alone, as model.parameters()")
    (group,) = parameter_groups(given, flat=flat)
    return tensors_of(group["params"])


def parameter_groups(parameters: Parameters, *, flat: bool = True) -> list[dict[str, Any]]:
    """Return groups for ``torch.optim.Optimizer``, with only the parameters that need a gradient.

    A parameter given twice in a group, such as a tied weight, is kept once. A parameter without
    elements is left out.

    Raises:
        UsageError: these are no parameters, a group has nothing to train or an unknown setting, a
            parameter is in two groups, or one is an inference tensor, complex or, if they must be
            ``flat``, in a format without arithmetic, not contiguous, on another device than the
            others or in memory that another one uses.
    """
    if _is_no_collection(parameters):
        tensors_of(parameters)  # raises the error
    given: list[Any] = list(parameters)
    grouped = bool(given) and isinstance(given[0], Mapping)
    found: list[dict[str, Any]] = []
    seen: dict[torch.Tensor, int] = {}
    for number, group in enumerate(given if grouped else [{"params": given}]):
        where = f" in parameter group {number}" if grouped else ""
        for name in group.keys() - {"params", *GROUP_SETTINGS}:
            allowed = ", ".join(GROUP_SETTINGS)
            raise UsageError(f"{name} = {group[name]!r}{where}: a group may set {allowed}")
        if "params" not in group:
            raise UsageError(f"the key 'params' is missing{where}, which has {sorted(group)}")
        entries = group["params"]
        if isinstance(entries, torch.Tensor):
            entries = [entries]
        elif not _is_no_collection(entries):
            entries = list(entries)
        tensors_of(entries)
        kept = []
        for entry in entries:
            name, parameter = entry if isinstance(entry, tuple) else ("", entry)
            trains = parameter.requires_grad and parameter.numel()
            if not trains or seen.get(parameter) == number:
                continue
            named = f"parameter {name!r}" if name else "a parameter"
            if parameter in seen:
                raise UsageError(
                    f"{named} is in parameter groups {seen[parameter]} and {number}: give it to "
                    "one of them"
                )
            require_changeable(named, parameter, flat=flat)
            seen[parameter] = number
            kept.append(entry)
        if not kept:
            msg = f"no parameter to train{where}: at least one must have requires_grad=True"
            raise UsageError(msg)
        found.append({**group, "params": kept})
    if flat:
        _require_apart(list(seen))
    return found


def require_movable(parameters: Sequence[torch.Tensor]) -> None:
    """Refuse parameters that passes cannot change in place, each once.

    Raises:
        UsageError: see ``parameter_groups``.
    """
    for parameter in parameters:
        require_changeable("a parameter", parameter, flat=True)
    if parameters:
        _require_apart(parameters)


def require_changeable(named: str, parameter: torch.Tensor, *, flat: bool) -> None:
    """Refuse a parameter that cannot be changed in place.

    Raises:
        UsageError: it is an inference tensor, complex or, if it must be ``flat``, in a format
            without arithmetic or not contiguous.
    """
    if parameter.is_inference():
        raise UsageError(
            f"{named} was made under torch.inference_mode, so it cannot be changed: load or clone "
            "the model outside of it"
        )
    if parameter.is_complex():
        raise UsageError(
            f"{named} is {parameter.dtype}: noise moves real numbers; store the real and the "
            "imaginary parts as two real parameters"
        )
    if flat and parameter.dtype not in _FORMATS:
        formats = ", ".join(str(dtype).removeprefix("torch.") for dtype in _FORMATS)
        raise UsageError(
            f"{named} is {parameter.dtype}, in which noise cannot be added: it must be one of "
            f"{formats}"
        )
    if flat and not parameter.is_contiguous():
        raise UsageError(
            f"{named} of shape {tuple(parameter.shape)} is not contiguous (channels_last, or a "
            "view): noise is added to flat chunks, make it contiguous first"
        )


def _require_apart(parameters: Sequence[torch.Tensor]) -> None:
    """Refuse parameters on several devices, without data, or with elements in common.

    Raises:
        UsageError: noise would miss some of them, or move some twice.
    """
    devices = sorted({str(parameter.device) for parameter in parameters})
    if devices != [devices[0]] or devices == ["meta"]:
        raise UsageError(
            f"the parameters are on {', '.join(devices)}: they must be on one device, and not on "
            "meta, where offloading keeps weights without data; load the whole model there, "
            "without device_map"
        )
    places = [
        # no addresses: the fake tensors of a simulated step have none
        (parameter.untyped_storage()._cdata, parameter.storage_offset(), number)
        for number, parameter in enumerate(parameters)
    ]
    for (storage, start, number), (other, begin, second) in pairwise(sorted(places)):
        first, later = parameters[number], parameters[second]
        if storage == other and begin * later.itemsize < start * first.itemsize + first.nbytes:
            raise UsageError(
                f"two parameters of shapes {tuple(first.shape)} and {tuple(later.shape)} share "
                "memory, so every pass would move it twice: tie weights by giving both modules the "
                "same Parameter, or clone one of them"
            )


def split_at(
    model: torch.nn.Module, partition: str | int, order: Sequence[int] | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Split the trainable parameters of ``model`` at a partition point C.

    Args:
        model: any module.
        partition: the dotted name of the first layer to train by backpropagation (``"fc3"``,
            ``"model.layers.30"``), or C itself, the number of direct children before it. With 0
            backpropagation trains everything, with the number of children nothing.
        order: the ``id`` of the parameters in the order in which a forward pass uses them; unused
            parameters come last. By default the order of registration.

    Returns:
        The zeroth-order parameters and the backpropagated parameters, in order.

    Raises:
        UsageError: there is no layer of that name, the number is out of range, there is nothing to
            train, or no zeroth-order parameter although C is above 0.
    """
    # only for its errors: the order of layers below includes frozen parameters
    trainable(model.parameters(), flat=False)
    named = list(model.named_parameters())
    if order is not None:
        place = {key: index for index, key in enumerate(order)}
        named.sort(key=lambda entry: place.get(id(entry[1]), len(place)))
    layers = [name.rpartition(".")[0] or name for name, _ in named]
    if isinstance(partition, str):
        # the dots keep "fc1" from naming "fc10"
        if not any(f"{layer}.".startswith(f"{partition}.") for layer in layers):
            for name, other in tied_names(model).items():
                if name.startswith(f"{partition}."):
                    raise UsageError(
                        f"partition {partition!r}: {name} is tied to {other}, one weight under two "
                        "names, and belongs to the layer that has it first; choose another "
                        "partition or untie it"
                    )
        start = partition_index(partition, layers)
    else:
        # with a module that is used twice, C counts as model[:C] does
        children = list(children_of(model))
        if order is not None:
            first = [layer.partition(".")[0] for layer in layers]
            places: list[int] = []
            for name in children:  # a child without parameters follows its predecessor
                places.append(first.index(name) if name in first else [-1, *places][-1])
            children = [children[i] for i in sorted(range(len(children)), key=places.__getitem__)]
        last = set(children[partition_index(partition, children) :])
        start = next(
            (i for i, layer in enumerate(layers) if layer.partition(".")[0] in last), len(layers)
        )
    zo_params: list[torch.Tensor] = [p for _, p in named[:start] if p.requires_grad]
    bp_params: list[torch.Tensor] = [p for _, p in named[start:] if p.requires_grad]
    if not zo_params and partition != 0:
        raise UsageError(
            f"partition {partition!r} leaves no parameter to zeroth order: {layers[start]!r} comes "
            "first, or nothing before it has requires_grad=True; choose a later layer, give "
            "trace=lambda: model(x) if layers run in another order than they are registered in, "
            "or C = 0 for backpropagation of everything"
        )
    if not bp_params and start < len(layers):
        raise UsageError(
            f"partition {partition!r} leaves no parameter to backpropagation: none from "
            f"{layers[start]!r} on has requires_grad=True; use MeZO, or unfreeze them"
        )
    require_movable(zo_params)
    return zo_params, bp_params


def tied_names(model: torch.nn.Module) -> dict[str, str]:
    """Return the second and later names of tied parameters, each with the first name."""
    first: dict[int, str] = {}
    tied = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            tied[name] = first[id(parameter)]
    return tied
