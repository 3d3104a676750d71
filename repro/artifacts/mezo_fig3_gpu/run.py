"""Measure and simulate training steps at the sizes of Fig. 3, and the models of Fig. 4.

Kinds of results:

- ``measured``: the peak of one training step; the point is its ``StepSpec`` and the device. The
  metric is ``out_of_memory`` where the device's memory was too small.
- ``simulated``: the same step under fake tensors; the point is its ``StepSpec``.
- ``fig4_model``: the peak of a step of one of the three models of Fig. 4 (claim A8).
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig3_gpu import Config
from repro.artifacts.shared.decoder_steps import (
    equation_bytes,
    measure_decoder_step,
    simulated_steps,
)
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.core.names import Attention
from repro.measurement.device import Device, require_device
from repro.memory.equal_memory import SET_UPS
from repro.memory.measured import MeasuredPeak, MeasureTask, peak_on_cuda
from repro.memory.step import Method, StepSpec, build_model, make_batch, make_step
from repro.models.training_mode import checkpoint_blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ORDER: tuple[Method, ...] = ("forward", "mezo", "bp_checkpoint", "bp")
"""Order of the steps on one model; BP is last, as its updates are the largest."""


@dataclass(frozen=True)
class ShapeTask:
    """Steps measured in one process, on one model."""

    spec: StepSpec
    """Specification of the first step; the others replace its method and attention."""
    methods: tuple[Method, ...]
    attentions: tuple[Attention, ...]
    device: Device
    gpt2: bool = False

    def key(self) -> dict[str, Any]:
        """Return the fields that identify this task."""
        rest = {"methods": self.methods, "attentions": self.attentions, "device": self.device}
        return self.spec.as_dict() | rest | {"gpt2": self.gpt2}


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result; an interrupted run keeps its finished shapes.

    Raises:
        UsageError: steps are to be measured, and the device does not exist.
    """
    if "measured" in config.parts:
        require_device(config.device)
        yield from _measured(config, context)
    if "simulated" in config.parts:
        done = simulated_steps(
            "mezo_fig3_gpu", config.shapes(), config.attentions, config.dtype, context
        )
        for spec, step in done:
            found = step | {"equation_bytes": equation_bytes(spec)}
            yield Result("simulated", spec.as_dict(), found)


def _measured(config: Config, context: Context) -> Iterator[Result]:
    specs = [
        StepSpec(shape, "forward", config.attentions[0], config.dtype) for shape in config.shapes()
    ]
    if config.device == "cuda":  # its allocator can be measured repeatedly in one process
        tasks = [ShapeTask(spec, _ORDER, config.attentions, config.device) for spec in specs]
    else:
        tasks = [
            ShapeTask(replace(spec, attention=attention), (method,), (attention,), config.device)
            for spec in specs
            for method in _ORDER
            for attention in config.attentions
        ]
    models = {}
    for model in config.fig4_models:
        set_up = SET_UPS[model]
        spec = StepSpec(set_up.shape, set_up.method, config.attentions[0], config.dtype)
        gpt2 = model == "gpt2-medium"
        task = ShapeTask(spec, (set_up.method,), config.attentions, config.device, gpt2=gpt2)
        models[task] = model
    for task, metrics in run_in_subprocesses(
        "mezo_fig3_gpu measured",
        measure_shape,
        [*tasks, *models],
        ShapeTask.key,
        label=lambda task: "N={context} L={layers} D={hidden}".format(**task.key()),
        store=context.result_cache,
        workers=1,  # one device, one process
    ):
        for step in metrics["steps"]:
            spec = replace(task.spec, method=step["method"], attention=step["attention"])
            point = spec.as_dict() | {"device": config.device}
            found = step["found"] | {"equation_bytes": equation_bytes(spec)}
            if task in models:
                yield Result("fig4_model", point | {"model": models[task]}, found)
            else:
                yield Result("measured", point, found)


def measure_shape(task: ShapeTask) -> dict[str, Any]:
    """Measure the steps of one shape; at the top level of the module for use in another process."""
    if task.device == "cpu":
        spec = replace(task.spec, method=task.methods[0], attention=task.attentions[0])
        found = measure_decoder_step(MeasureTask(spec, "cpu", threads=1, onednn=True))
        return {"steps": [{"method": spec.method, "attention": spec.attention, "found": found}]}
    return {"steps": list(_on_gpu(task))}


def _on_gpu(task: ShapeTask) -> Iterator[dict[str, Any]]:
    """Measure all methods on one model, as building the model takes longer than a step."""
    torch.manual_seed(0)
    before = torch.cuda.memory_allocated()
    try:
        with torch.device("cuda"):
            model: PreTrainedModel = _gpt2(task.spec) if task.gpt2 else build_model(task.spec)
    except torch.OutOfMemoryError:
        for method, attention in product(task.methods, task.attentions):
            yield {"method": method, "attention": attention, "found": {"out_of_memory": True}}
        return
    weights = torch.cuda.memory_allocated() - before
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    for method in task.methods:
        for attention in task.attentions:
            spec = replace(task.spec, method=method, attention=attention)
            model.set_attn_implementation(attention)
            if method == "bp_checkpoint":
                checkpoint_blocks(model)
            else:
                model.activation_checkpointing_disable()  # type: ignore[no-untyped-call]
            batch = make_batch(spec, "cuda")
            found = peak_on_cuda(make_step(spec, model, batch))
            if found is None:
                metrics: dict[str, Any] = {"out_of_memory": True}
            else:
                peak = MeasuredPeak(parameters, weights, found.allocated, found.reserved)
                metrics = peak.as_metrics()
            yield {"method": method, "attention": attention, "found": metrics}
            gc.collect()
            torch.cuda.empty_cache()


def _gpt2(spec: StepSpec) -> "PreTrainedModel":
    """Build GPT-2 with random weights, without dropout, in training mode."""
    from transformers import AutoModelForCausalLM, GPT2Config

    shape = spec.shape
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=shape.context,
        n_embd=shape.hidden,
        n_layer=shape.layers,
        n_head=shape.heads,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, dtype=spec.torch_dtype, attn_implementation=spec.attention
    )
    model.train()
    return model
