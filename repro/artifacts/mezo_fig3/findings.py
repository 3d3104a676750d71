"""Our value for each claim of the MeZO paper's section 2.4, from the records of one run."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from repro.artifacts.mezo_fig3 import ARTIFACT, PAPER
from repro.artifacts.mezo_fig3.points import Point, ratios
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind, single
from repro.memory.equal_memory import TARGET_BYTES

_CHECKPOINTED = "blocks checkpointed one by one keep less than the formula's sqrt(L) layers"
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
    measured = ratios(of_kind(records, "measured"))
    return [
        *_bound(curves),
        _lowest("A1-simulated", simulated, "counted in real steps of the models of the six panels"),
        _lowest("A1-measured", measured, "measured in real steps of Llama models"),
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


def _bound(curves: Curves) -> list[Finding]:
    """A1 over all six panels, and without the shallow decoders at which it fails."""
    lowest = min(min(curve.ratio) for curve in curves.values())
    deep = [
        value
        for (axis, _), curve in curves.items()
        for x, value in zip(curve.values, curve.ratio, strict=True)
        if axis != "layers" or x >= 4
    ]
    return [
        Finding(
            "A1",
            lowest,
            "smallest ratio of equations (2) and (3) in the six panels, at L = 1; it is at least 2 "
            "exactly where L >= 2 L' (sqrt(L) >= 2 L' with checkpointing): at every drawn point "
            "of 4 layers or more",
        ),
        Finding("A1-deep", min(deep), "smallest ratio in the six panels where L >= 4"),
    ]


def _analytic(curves: Curves) -> list[Finding]:
    context, context_c = curves["context", ""], curves["context", "_checkpoint"]
    layers, layers_c = curves["layers", ""], curves["layers", "_checkpoint"]
    hidden, hidden_c = curves["hidden", ""], curves["hidden", "_checkpoint"]
    peak = max(layers_c.ratio)
    peak_at = layers_c.values[list(layers_c.ratio).index(peak)]
    half = min(context.values, key=lambda n: abs(n - 16384))
    return [
        Finding(
            "A2",
            context.at(32768),
            f"equations (2) and (3) at N = 32768; they give {context.at(half):.2f} at N = {half}, "
            "which is the published figure",
        ),
        Finding(
            "A2-orders",
            context.limit,
            "limit of the ratio for N without bound: it is L / L', which no context exceeds at the "
            "L' = 1 that Fig. 3 takes",
        ),
        Finding("A3", context_c.at(32768), "equations (2) and (3) at N = 32768"),
        Finding("A4", layers.at(1), "equations (2) and (3) at L = 1; no L gives less"),
        Finding("A5", layers.at(100), "equations (2) and (3) at L = 100"),
        Finding("A5-asymptote", layers.limit, "quotient of the leading coefficients in L"),
        Finding("A6", peak, f"largest ratio over L = 1..100, at L = {peak_at}"),
        Finding("A6-L100", layers_c.at(100), "equations (2) and (3) at L = 100"),
        Finding("A6-asymptote", layers_c.limit, "quotient of the leading coefficients in L"),
        Finding("A7", hidden.at(512), "equations (2) and (3) at D = 512"),
        Finding("A7-checkpointed", hidden_c.at(512), "equations (2) and (3) at D = 512"),
        Finding("A7-asymptote", hidden.limit, "quotient of the leading coefficients in D"),
    ]


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


def _lowest(claim_id: str, points: Iterable[Point], what: str) -> Finding:
    deep = [point for point in points if point.layers >= 4]
    if not deep:
        return Finding(claim_id, None, "no such points in this run")
    lowest = min(deep, key=lambda point: point.ratio)
    below = sum(point.ratio < 2 for point in deep)
    reason = f"smallest of {len(deep)} ratios {what} (L >= 4), at {lowest.label()}"
    if below:
        reason += f"; {below} of them are below 2: {_why(lowest)}"
    return Finding(claim_id, lowest.ratio, reason)


def _why(point: Point) -> str:
    """Say by what a real step has less than the formula's ratio."""
    if point.method == "bp_checkpoint":
        return f"{_CHECKPOINTED} (BP {_beside(point.bp)}, MeZO {_beside(point.mezo)})"
    return (
        "BP frees activations while its gradients appear, and so never holds all that equation (2) "
        "adds up"
    )


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
