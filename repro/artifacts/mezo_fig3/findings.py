"""Our value for each claim of the MeZO paper's section 2.4, from the records of one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.artifacts.mezo_fig3 import ARTIFACT, PAPER
from repro.artifacts.mezo_fig3.points import Point, ratios
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind, single
from repro.memory.analytic import bp_bytes, mezo_bytes, sizes_of
from repro.memory.equal_memory import TARGET_BYTES
from repro.memory.model_size import GROWTHS, size_ratio
from repro.memory.readings import RECOVERED, Reading
from repro.memory.shape import LLAMA2_7B

_CHECKPOINTED = "blocks checkpointed one by one keep less than the formula's sqrt(L) layers"
_CORRECTION = (
    "BP holds no gradients of embedding and output layer, and checkpointing keeps ceil(sqrt(L)) "
    "layers: the only one of 41,472 readings that gives every printed number"
)
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


@dataclass(frozen=True)
class Curve:
    """The analytic ratio BP / MeZO along one axis."""

    values: Sequence[int]
    ratio: Sequence[float]
    limit: float

    def at(self, value: int) -> float:
        """Return the ratio at one value of the axis."""
        return self.ratio[list(self.values).index(value)]


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    if not _is_paper_setting(records[0].config):
        reason = (
            "the run's setting is not the paper's; run without changing N, L, D, H, V, B, b, L'"
        )
        return [Finding(claim_id, None, reason) for claim_id in ARTIFACT.claims]
    curves = {
        (record.point["axis"], suffix): _curve(record.metrics, suffix)
        for record in of_kind(records, "analytic")
        if record.point["scope"] == "paper"
        for suffix in ("", "_checkpoint")
    }
    simulated = ratios(of_kind(records, "simulated"))
    return [
        *_model_size(),
        *_analytic(curves),
        *_simulated(simulated),
        *_seventeen_gigabytes(records),
    ]


Curves = dict[tuple[str, str], Curve]


def _is_paper_setting(config: dict[str, Any]) -> bool:
    return all(config[name] == getattr(PAPER, name) for name in _SETTING)


def _curve(metrics: dict[str, Any], suffix: str) -> Curve:
    bp, mezo = metrics[f"bp{suffix}_bytes"], metrics["mezo_bytes"]
    ratio = [b / m for b, m in zip(bp, mezo, strict=True)]
    return Curve(metrics["values"], ratio, metrics[f"ratio_limit{suffix}"])


def _model_size() -> list[Finding]:
    """A1 and A2-orders: how much larger a model MeZO trains in BP's memory, by equations."""
    printed = Reading()
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
    return [
        Finding(
            "A1",
            smallest["depth"],
            "smallest ratio of parameters over the six panels of Fig. 3, by equations (2) and (3), "
            f"if the model grows in depth; {smallest['width']:.2f} if it grows in width",
        ),
        Finding(
            "A2-orders",
            orders[False],
            "ratio of parameters by equations (2) and (3) if the 7B grows in depth; "
            f"{orders[True]:.0f} with checkpointing",
        ),
    ]


def _analytic(curves: Curves) -> list[Finding]:
    context, context_c = curves["context", ""], curves["context", "_checkpoint"]
    layers, layers_c = curves["layers", ""], curves["layers", "_checkpoint"]
    hidden, hidden_c = curves["hidden", ""], curves["hidden", "_checkpoint"]
    peak = max(layers_c.ratio)
    peak_at = layers_c.values[list(layers_c.ratio).index(peak)]
    moderate = min(context.values, key=lambda n: abs(n - 512))
    every_depth = sizes_of(LLAMA2_7B, 2, layers=list(range(1, 101)))
    corrected_peak = float(RECOVERED.ratio(every_depth, checkpointing=True).max())
    whole = sizes_of(LLAMA2_7B, 2)
    return [
        Finding(
            "A2",
            context.at(32768),
            "equations (2) and (3) at N = 32768",
            corrected=_recovered(context=16384),
            correction=f"{_CORRECTION}; read at N = 16,384",
        ),
        Finding("A3", context_c.at(32768), "equations (2) and (3) at N = 32768"),
        _corrected("A4", layers.at(1), "equations (2) and (3) at L = 1", layers=1),
        _corrected("A5", layers.at(100), "equations (2) and (3) at L = 100", layers=100),
        Finding("A5-asymptote", layers.limit, "quotient of the leading coefficients in L"),
        Finding(
            "A6",
            peak,
            f"largest ratio over L = 1..100, at L = {peak_at}",
            corrected=corrected_peak,
            correction=_CORRECTION,
        ),
        _corrected(
            "A6-L100",
            layers_c.at(100),
            "equations (2) and (3) at L = 100",
            checkpointing=True,
            layers=100,
        ),
        Finding("A6-asymptote", layers_c.limit, "quotient of the leading coefficients in L"),
        _corrected("A7", hidden.at(512), "equations (2) and (3) at D = 512", hidden=512),
        Finding("A7-checkpointed", hidden_c.at(512), "equations (2) and (3) at D = 512"),
        Finding("A7-asymptote", hidden.limit, "quotient of the leading coefficients in D"),
        Finding("A14", context.at(moderate), f"equations (2) and (3) at N = {moderate}"),
        Finding(
            "A11",
            float(mezo_bytes(whole, live_layers=whole.L) / bp_bytes(whole)),
            "equation (3) has one copy of the weights and no gradients at any L'",
        ),
    ]


def _corrected(
    claim_id: str, ours: float, reason: str, *, checkpointing: bool = False, **sizes: int
) -> Finding:
    """Return a finding with the value of the recovered reading beside that of the equations."""
    return Finding(
        claim_id,
        ours,
        reason,
        corrected=_recovered(checkpointing=checkpointing, **sizes),
        correction=_CORRECTION,
    )


def _recovered(*, checkpointing: bool = False, **sizes: int) -> float:
    return float(RECOVERED.ratio(sizes_of(LLAMA2_7B, 2, **sizes), checkpointing=checkpointing))


def _simulated(points: Sequence[Point]) -> list[Finding]:
    """Return the ratio of the counted tensors where the paper quotes one, by attention kernel."""
    wanted: tuple[tuple[str, str, Callable[[Point], bool]], ...] = (
        ("A2-simulated", "bp", lambda p: p.context == 32768),
        ("A3-simulated", "bp_checkpoint", lambda p: p.context == 32768),
        ("A4-simulated", "bp", lambda p: p.layers == 1),
        ("A5-simulated", "bp", lambda p: p.layers == 100),
        ("A6-simulated", "bp_checkpoint", lambda p: p.layers == 100),
        ("A7-simulated", "bp", lambda p: p.hidden == 512),
    )
    found = []
    for claim_id, method, select in wanted:
        here = [p for p in points if p.method == method and select(p)]
        by_attention = {p.attention: p for p in here}
        eager = by_attention.get("eager")
        if eager is None:
            found.append(Finding(claim_id, None, "not simulated in this run"))
            continue
        reason = (
            f"tensors of a real step with eager attention: BP {_beside(eager.bp)}, "
            f"MeZO {_beside(eager.mezo)}"
        )
        if method == "bp_checkpoint":
            reason += f"; {_CHECKPOINTED}"
        if sdpa := by_attention.get("sdpa"):
            reason += f"; with SDPA, which keeps no N x N scores, the ratio is {sdpa.ratio:.2f}"
        found.append(Finding(claim_id, eager.ratio, reason))
    return found


def _beside(metrics: dict[str, Any]) -> str:
    """Say what was counted and what the formula predicts."""
    found, formula = (format_bytes(metrics[f"{name}_bytes"]) for name in ("peak", "formula"))
    return f"{found} (formula {formula})"


def _seventeen_gigabytes(records: Sequence[Record]) -> list[Finding]:
    settings = {
        record.point["model"]: record.metrics for record in of_kind(records, "fig4_setting")
    }
    search = single(records, "equal_memory")
    gpt2 = settings["gpt2-medium"]
    small, large = settings["llama-7b"], settings["llama-13b"]
    by_b = ", ".join(f"{n} for b = {b}" for b, n in search.metrics["free_fractions"].items())
    return [
        Finding(
            "A8",
            search.metrics["published_fractions"],
            f"settings that give 17 +- 0.5 GB for all three at the published L'/L, of the "
            f"{search.metrics['searched']} searched (b from 0.5 to 4, B to "
            f"{search.point['largest_batch']}, N to {search.point['largest_context']}); "
            f"with L' free there are {by_b}{_example(search)}",
        ),
        Finding(
            "A8-gpt2-medium",
            gpt2["total_bytes"] / GB,
            f"equation (2); 17 GB would need b = {gpt2['bytes_per_parameter_for_target']:.2f}",
        ),
        Finding(
            "A8-llama-7b",
            small["total_bytes"] / GB,
            f"equation (3); with B = 1 it gives {small['total_bytes_batch_1'] / GB:.1f} GB, so the "
            "published figure may have left out the batch",
        ),
        Finding(
            "A8-llama-13b",
            large["total_bytes"] / GB,
            f"equation (3); the weights alone take {format_bytes(large['weights_bytes'])}, "
            f"more than {format_bytes(TARGET_BYTES)}",
        ),
    ]


def _example(search: Record) -> str:
    example = search.metrics.get("example")
    if example is None:
        return ""
    return (
        f", nearest to the paper's at b = {example['bytes_per_parameter']:g}, "
        f"B = {example['batch']}, N = {example['context']} "
        f"with L'/L = {example['live_fraction_7b']:.2f} and {example['live_fraction_13b']:.2f}"
    )
