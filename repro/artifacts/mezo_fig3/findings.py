"""Our value for each claim of the MeZO paper's section 2.4, from the records of one run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from repro.artifacts.mezo_fig3 import ARTIFACT, PAPER
from repro.artifacts.shared import savings
from repro.artifacts.shared.savings import SYMBOLS, device_of
from repro.claims.memory import UNIQUE
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind, single
from repro.memory.analytic import AS_PRINTED, Reading, sizes_of
from repro.memory.equal_memory import SET_UPS, TARGET_BYTES
from repro.memory.readings import GROWTHS, RECOVERED, largest_model, size_ratio
from repro.memory.shape import LLAMA2_7B

_CHECKPOINTED = (
    "checkpointing every block keeps fewer activations than the formula's sqrt(L) layers"
)
_GRADIENTS = f"BP holds no gradients of embedding and output layer: {UNIQUE}"
_LAYERS = (
    "BP holds no gradients of embedding and output layer, and checkpointing keeps ceil(sqrt(L)) "
    f"layers: {UNIQUE}"
)
_READ_AT = {"A2": f"the printed number is the saving at N = 16,384: {UNIQUE}"}
"""Corrections of where a number was read."""
_MODERATE = 512
"""The N that we take for the paper's "moderate" and "smaller" contexts."""
_CONTEXTS = (1, 128, 512, 2048, 8192, 32768)
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 100)
_WIDTHS = (512, 1024, 4096, 32768)
_SETTING = (
    "context",
    "layers",
    "hidden",
    "heads",
    "vocabulary",
    "batch",
    "bytes_per_parameter",
    "live_layers",
)


_LIMITS = (
    ("A5-asymptote", "layers", ""),
    ("A6-asymptote", "layers", "_checkpoint"),
    ("A7-asymptote", "hidden", ""),
)
"""Claims on the limit of a ratio along an axis."""

Analytic = Mapping[str, dict[str, Any]]
"""Metrics of the analytic lines by axis."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    config = records[0].config
    if any(config[name] != getattr(PAPER, name) for name in _SETTING):
        reason = (
            "the run's setting is not the paper's; run without changing N, L, D, H, V, B, b, L'"
        )
        return [Finding(claim_id, None, reason) for claim_id in ARTIFACT.claims]
    found = [
        *_simulated(savings.pairs(of_kind(records, "simulated"))),
        _perturbations(records),
        _inference(records),
    ]
    analytic = {
        record.point["axis"]: record.metrics
        for record in of_kind(records, "analytic")
        if record.point["scope"] == "paper"
    }
    if analytic:
        found += [
            *_model_size(),
            *_analytic(analytic),
            *_readings(analytic),
            _parameters(records),
            *_cited(),
            *_seventeen_gigabytes(records),
        ]
    done = {finding.claim_id for finding in found}
    return found + [_missing(name) for name in ARTIFACT.claims if name not in done]


def _missing(name: str) -> Finding:
    if name.endswith("-simulated"):
        return Finding(name, None, "not simulated in this run")
    reason = "the equations were not computed in this run: add --parts equations"
    return Finding(name, None, reason)


def _curve(analytic: Analytic, axis: str, suffix: str = "") -> dict[int, float]:
    """Return the ratio BP / MeZO at each value of one axis."""
    metrics = analytic[axis]
    numbers = zip(
        metrics["values"], metrics[f"bp{suffix}_bytes"], metrics["mezo_bytes"], strict=True
    )
    return {value: bp / mezo for value, bp, mezo in numbers}


def _model_size() -> list[Finding]:
    """Compute A1, A2-orders and A20 by equations: model sizes at equal memory."""
    printed = AS_PRINTED
    shapes = [
        *(replace(LLAMA2_7B, context=n) for n in _CONTEXTS),
        *(replace(LLAMA2_7B, layers=n) for n in _DEPTHS),
        *(replace(LLAMA2_7B, hidden=n) for n in _WIDTHS),
    ]
    smallest = {
        growth: min(
            size_ratio(shape, growth, printed, checkpointing=checkpointing)
            for shape in shapes
            for checkpointing in (False, True)
        )
        for growth in GROWTHS
    }
    long = replace(LLAMA2_7B, context=32768)
    orders = {c: size_ratio(long, "depth", printed, checkpointing=c) for c in (False, True)}
    least = min(
        size_ratio(shape, "depth", RECOVERED, checkpointing=c)
        for shape in shapes
        for c in (False, True)
    )
    return [
        Finding(
            "A1",
            smallest["depth"],
            "smallest ratio of parameters over the six panels of Fig. 3, by equations (2) and (3), "
            f"if the model grows in depth; {smallest['width']:.2f} x if it grows in width; "
            f"{least:.2f} x in depth by the recovered equations, in which BP holds fewer gradients",
            plausible=(smallest["width"], smallest["depth"]),
        ),
        Finding(
            "A2-orders",
            orders[False],
            "ratio of parameters by equations (2) and (3) if the 7B grows in depth; "
            f"{orders[True]:.0f} x with checkpointing",
            plausible=(orders[True], orders[False]),
        ),
        Finding(
            "A20",
            orders[False],
            "ratio of parameters at N = 32768 by equations (2) and (3) if the 7B grows in depth; "
            f"{orders[True]:.0f} x with checkpointing",
            corrected=float(RECOVERED.ratio(sizes_of(LLAMA2_7B, 2, context=16384))),
            correction="25x is the saving in memory for one model (section 2.4); at equal memory "
            f"the ratio of the model sizes is far larger; read at N = 16,384: {UNIQUE}",
        ),
    ]


def _analytic(analytic: Analytic) -> list[Finding]:
    found = []
    for claim_id, (method, axis, value, recovered_at) in savings.QUOTED.items():
        suffix = method.removeprefix("bp")
        finding = Finding(
            claim_id,
            _curve(analytic, axis, suffix)[value],
            f"equations (2) and (3) at {SYMBOLS[axis]} = {value}",
        )
        if recovered_at is not None:
            s = sizes_of(LLAMA2_7B, 2, **{axis: recovered_at})
            finding = replace(
                finding,
                corrected=float(RECOVERED.ratio(s, checkpointing=bool(suffix))),
                correction=_READ_AT.get(claim_id) or (_LAYERS if suffix else _GRADIENTS),
            )
        found.append(finding)
    found += [
        Finding(
            claim_id,
            analytic[axis][f"ratio_limit{suffix}"],
            f"quotient of the leading coefficients in {SYMBOLS[axis]}",
        )
        for claim_id, axis, suffix in _LIMITS
    ]
    context, depth = _curve(analytic, "context"), _curve(analytic, "layers", "_checkpoint")
    peak_at = max(depth, key=lambda layers: depth[layers])
    every_depth = sizes_of(LLAMA2_7B, 2, layers=list(range(1, 101)))
    whole = sizes_of(LLAMA2_7B, 2)
    return [
        *found,
        Finding(
            "A6",
            depth[peak_at],
            f"largest ratio over L = 1..100, at L = {peak_at}",
            corrected=float(RECOVERED.ratio(every_depth, checkpointing=True).max()),
            correction=_LAYERS,
        ),
        Finding(
            "A14",
            context[_MODERATE],
            f"equations (2) and (3) at N = {_MODERATE}; {context[128]:.2f} x at N = 128, "
            f"{context[2048]:.2f} x at N = 2048",
            plausible=(context[128], context[2048]),
        ),
        Finding(
            "A11",
            float(AS_PRINTED.mezo_bytes(whole, whole.L) / AS_PRINTED.bp_bytes(whole)),
            "equation (3) counts one copy of the weights and no gradients, for every L'",
        ),
    ]


def _readings(analytic: Analytic) -> list[Finding]:
    """Compute A16 and A18, on the small saving at L = 1 and on the effect of checkpointing."""
    printed, recovered = (
        [float(reading.ratio(sizes_of(LLAMA2_7B, 2, layers=1))) for reading in pair]
        for pair in (
            (Reading(embeddings=0, embedding_gradients=0), AS_PRINTED),
            (replace(RECOVERED, embeddings=0), RECOVERED),
        )
    )
    plain, checkpointed = _curve(analytic, "context"), _curve(analytic, "context", "_checkpoint")
    over = {n: checkpointed[n] / plain[n] for n in plain if n <= _MODERATE}
    return [
        Finding(
            "A16",
            printed[0] / printed[1],
            f"the saving is {printed[0]:.2f} x without them and {printed[1]:.2f} x with them by "
            "equation (2), which counts their gradients; the main cause of the small saving is "
            "another: at L' = L = 1 MeZO holds all of BP's activations",
            corrected=recovered[0] / recovered[1],
            correction=f"{_GRADIENTS}; it gives {recovered[0]:.2f} x without them and "
            f"{recovered[1]:.2f} x with them",
        ),
        Finding(
            "A18",
            over[_MODERATE],
            f"savings with and without checkpointing: {checkpointed[_MODERATE]:.2f} x and "
            f"{plain[_MODERATE]:.2f} x at N = {_MODERATE}; {checkpointed[128]:.2f} x and "
            f"{plain[128]:.2f} x at N = 128",
            plausible=(min(over.values()), max(over.values())),
        ),
    ]


def _parameters(records: Sequence[Record]) -> Finding:
    """Compute A12: the real model's parameters over the printed sum, and over all layers' sum."""
    counted = sum(single(records, "parameters").metrics["table"].values())
    shape = LLAMA2_7B
    outside = 2 * shape.vocabulary * shape.hidden
    one_layer = 12 * shape.hidden**2
    return Finding(
        "A12",
        counted / (one_layer + outside),
        f"the real model has {counted:,} parameters, the formula as printed "
        f"{one_layer + outside:,}",
        corrected=counted / (shape.layers * one_layer + outside),
        correction="12 D^2 are the parameters of one layer; equations (2) and (3) use 12 L D^2",
    )


def _cited() -> Iterator[Finding]:
    """Compute A17 and A19, which section 1 cites without a setting, under several usual ones."""
    printed = AS_PRINTED
    settings = list(product((2, 4), (1, 8), (1024, 2048)))  # b, B, N
    sizes = {
        (b, batch, context): largest_model(
            replace(LLAMA2_7B, batch=batch, context=context), 80 * GB, "depth", printed.bp_bytes, b
        )
        / 1e9
        for b, batch, context in settings
    }
    large = SET_UPS["llama-13b"].shape
    savings = {
        (b, batch, context): float(printed.ratio(sizes_of(large, b, batch=batch, context=context)))
        for b, batch, context in settings
    }
    for claim_id, found, where in (
        ("A17", sizes, "in the setting of Fig. 3, growing in depth"),
        ("A19", savings, "Llama 2 13B in the setting of Fig. 3"),
    ):
        low, high = (
            f"{found[at]:.1f} (b = {at[0]}, B = {at[1]}, N = {at[2]})"
            for at in (min(found, key=found.__getitem__), max(found, key=found.__getitem__))
        )
        yield Finding(
            claim_id,
            found[2, LLAMA2_7B.batch, LLAMA2_7B.context],
            f"{where}; over {len(found)} usual settings from {low} to {high}",
            plausible=(min(found.values()), max(found.values())),
        )


def _perturbations(records: Sequence[Record]) -> Finding:
    """Compute A13: the measured peak with several perturbations over the peak with one."""
    # a step that exceeded the memory has no peak
    every = [r for r in of_kind(records, "perturbations") if "peak_bytes" in r.metrics]
    on_cpu = [record for record in every if device_of(record) == "cpu"]
    peaks: dict[tuple[str, str], dict[int, int]] = {}
    for record in on_cpu or every:
        where = (record.point["attention"], record.point["dtype"])
        number = record.point["perturbations"]
        peaks.setdefault(where, {})[number] = record.metrics["peak_bytes"]
    found = {where: by_n[5] / by_n[1] for where, by_n in peaks.items() if {1, 5} <= by_n.keys()}
    if not found:
        return Finding("A13", None, "not measured: run with --parts perturbations")
    worst = max(found, key=lambda where: abs(found[where] - 1))
    first = peaks[worst]
    source = "memray" if on_cpu else "the GPU's allocator"
    return Finding(
        "A13",
        found[worst],
        f"{source}, {' attention in '.join(worst)}: {first[5]:,} bytes with n = 5, "
        f"{first[1]:,} with n = 1; of {len(found)} pairs, this ratio is the farthest from 1",
    )


def _inference(records: Sequence[Record]) -> Finding:
    """Compute A15: the measured peak of a MeZO step over the peak of a forward pass alone."""
    found = savings.pairs(of_kind(records, "measured"), ["mezo"], "forward")
    if found.empty:
        return Finding("A15", None, "not measured in this run")
    largest = found.loc[found["ratio"].idxmax()]
    return Finding(
        "A15",
        float(largest.ratio),
        f"the largest ratio of {len(found)} measured steps: MeZO {format_bytes(largest.peak_bytes)}"
        f", forward pass {format_bytes(largest.peak_bytes_over)}",
    )


def _simulated(points: pd.DataFrame) -> Iterator[Finding]:
    """Yield the ratios by counted tensors wherever the paper quotes one, by attention kernel."""
    yield from savings.findings(points, "simulated", _reason)
    of_7b = {"context": 32768, "layers": LLAMA2_7B.layers, "hidden": LLAMA2_7B.hidden}
    here = savings.at(points, of_7b | {"method": "bp"})
    if len(here):
        reason = "ratio of parameters at equal memory by simulated steps, if the 7B grows in depth"
        sizes = here.set_index("attention")["size_ratio"].to_dict()
        yield savings.by_kernel("A2-orders-simulated", sizes, reason)


def _reason(eager: pd.Series) -> str:
    bp, mezo = (
        f"{format_bytes(peak)} (formula {format_bytes(formula)})"
        for peak, formula in (
            (eager.peak_bytes, eager.formula_bytes),
            (eager.peak_bytes_over, eager.formula_bytes_over),
        )
    )
    reason = f"tensors counted in a step with eager attention: BP {bp}, MeZO {mezo}"
    return f"{reason}; {_CHECKPOINTED}" if eager.method == "bp_checkpoint" else reason


def _seventeen_gigabytes(records: Sequence[Record]) -> list[Finding]:
    settings = {
        record.point["model"]: record.metrics for record in of_kind(records, "fig4_setting")
    }
    search = single(records, "equal_memory")
    gpt2 = settings["gpt2-medium"]
    small, large = settings["llama-7b"], settings["llama-13b"]
    by_b = ", ".join(f"{n:,} with b = {b}" for b, n in search.metrics["free_fractions"].items())
    nearest = ""
    if (example := search.metrics.get("example")) is not None:
        nearest = (
            f"; the nearest to the paper's is b = {example['bytes_per_parameter']:g}, "
            f"B = {example['batch']}, N = {example['context']} "
            f"with L'/L = {example['live_fraction_7b']:.2f} and {example['live_fraction_13b']:.2f}"
        )
    return [
        Finding(
            "A8",
            search.metrics["published_fractions"],
            f"number of settings that give 17 +- 0.5 GB for all three at the published L'/L, of "
            f"{search.metrics['searched']:,} searched (b from 0.5 to 4, B to "
            f"{search.point['largest_batch']}, N to {search.point['largest_context']}); "
            f"if L' may vary, there are {by_b}{nearest}",
        ),
        Finding(
            "A8-gpt2-medium",
            gpt2["total_bytes"] / GB,
            f"equation (2) at b = 2; 17 GB would need b = "
            f"{gpt2['bytes_per_parameter_for_target']:.2f}; {_by_format('gpt2-medium')}",
        ),
        Finding(
            "A8-llama-7b",
            small["total_bytes"] / GB,
            f"equation (3) at b = 2; with B = 1 it gives {small['total_bytes_batch_1'] / GB:.1f} "
            f"GB, so the published figure may have left out the batch; {_by_format('llama-7b')}",
        ),
        Finding(
            "A8-llama-13b",
            large["total_bytes"] / GB,
            "equation (3) at b = 2; the weights alone take "
            f"{format_bytes(large['weights_bytes'])}, more than {format_bytes(TARGET_BYTES)}; "
            f"{_by_format('llama-13b')}",
        ),
    ]


def _by_format(model: str) -> str:
    """Return the memory in the other number formats of 4, 8 and 32 bits, as in the search for A8.

    A number has no size between these, so 17 GB between two of them is no reading.
    """
    set_up = SET_UPS[model]
    values = [(b, float(set_up.peak(sizes_of(set_up.shape, b))) / GB) for b in (0.5, 1, 4)]
    return ", ".join(f"{value:.1f} GB at b = {b:g}" for b, value in values)
