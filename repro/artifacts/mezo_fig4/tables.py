"""Make the notebook's tables from records, as data frames."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.mezo_fig4.findings import of_setting
from repro.artifacts.mezo_fig4.points import ArmSeeds, set_up, settings
from repro.artifacts.shared.tuning import best_rate
from repro.claims.claim import SIGNS
from repro.claims.index import CLAIMS
from repro.claims.statistics import estimate
from repro.claims.verdict import shown, verdict
from repro.core.units import format_bytes
from repro.finetuning.arms import LABELS
from repro.measurement.records import Record, of_kind


def memory(records: Sequence[Record]) -> pd.DataFrame:
    """Return every set-up whose memory was estimated: formulas, simulation, measurement, L'.

    Records older than the planner's formula have the paper's equations with the model's real number
    of parameters instead. A set-up is chosen if a run trained it: a later run of other arms plans
    the budget's again without choosing it.
    """
    runs = of_kind(records, "run")
    trained = {set_up(record) for record in runs if "out_of_memory" not in record.metrics}
    rows = []
    for record in of_kind(records, "plan"):
        point, metrics = record.point, record.metrics
        budget = metrics.get("budget_bytes")
        rows.append(
            {
                "setting": point["setting"],
                "arm": LABELS[point["arm"]],
                "model": point["model"],
                "dtype": point["dtype"],
                "B": point["batch"],
                "N": point["context"],
                "budget": format_bytes(budget) if budget else "none",
                "equations (2), (3)": _optional_bytes(metrics.get("published_formula_bytes")),
                "with real parameters": _optional_bytes(metrics.get("planned_bytes")),
                "planner's formula": _optional_bytes(metrics.get("formula_bytes")),
                **_peak(metrics, "simulated", point["arm"]),
                **_peak(metrics, "measured", point["arm"]),
                "chosen": "yes" if metrics["chosen"] or set_up(record) in trained else "no",
            }
        )
    return pd.DataFrame(rows)


def unobtainable(records: Sequence[Record]) -> pd.DataFrame:
    """Return the models that could not be obtained, unless a later run had them; with reasons."""
    had = {
        (r.point["setting"], r.point["model"]): r.utc
        for r in sorted(of_kind(records, "plan"), key=lambda record: record.utc)
    }
    rows = [
        {"setting": r.point["setting"], "model": r.point["model"], "why": r.metrics["reason"]}
        for r in of_kind(records, "unobtainable")
        if r.utc >= had.get((r.point["setting"], r.point["model"]), "")
    ]
    return pd.DataFrame(rows, columns=["setting", "model", "why"])


def zero_shot(records: Sequence[Record]) -> pd.DataFrame:
    """Return the accuracy of each model before any training, plain and calibrated."""
    rows = []
    for record in of_kind(records, "zero_shot"):
        point, metrics = record.point, record.metrics
        calibrated = metrics["calibrated_accuracy"]
        rows.append(
            {
                "setting": point["setting"],
                "data": point["dataset"],
                "model": point["model"],
                "processor": record.processor,
                "dtype": metrics["settings"]["dtype"],
                "items": metrics["items"]["validation"],
                "prompts cut": metrics["truncated"]["validation"],
                "zero-shot (%)": f"{100 * metrics['accuracy']:.1f}",
                **{f"{name} bias (%)": f"{100 * value:.1f}" for name, value in calibrated.items()},
                "majority (%)": f"{100 * metrics['majority']:.1f}",
            }
        )
    return pd.DataFrame(rows)


def gains(records: Sequence[Record]) -> pd.DataFrame:
    """Return what training added to each model's zero-shot accuracy, as means over seeds.

    Both accuracies are those of the last evaluation's items. Runs without this control are left
    out.
    """
    rows: list[dict[str, object]] = []
    for setting in settings(records):
        for line in setting.lines:
            before, ends = setting.before_training(line), list(line.final().values())
            if before is None or not ends:
                continue
            rows.append(
                {
                    "profile": setting.profile,
                    "data": setting.title,
                    "arm": LABELS[line.arm],
                    "model": line.model,
                    "seeds": len(ends),
                    "before (%)": f"{before:.1f}",
                    "after (%)": _mean(ends),
                    "by seed (%)": ", ".join(f"{end:.1f}" for end in ends),
                    "gain (points)": f"{estimate(ends).mean - before:+.1f}",
                    "steps by seed": _by_seed(line, "steps"),
                    "time by seed (s)": _by_seed(line, "seconds"),
                }
            )
    return pd.DataFrame(rows)


def runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return how each arm was trained and its final values, as means over seeds."""
    rows: list[dict[str, object]] = []
    for setting in settings(records):
        majority = setting.majority("monitored")
        for line in setting.lines:
            first = line.records[0].metrics
            rows.append(
                {
                    "profile": setting.profile,
                    "data": setting.title,
                    "arm": LABELS[line.arm],
                    "model": line.model,
                    "lr": line.settings["lr"],
                    "seeds": len(line.records),
                    "steps by seed": _by_seed(line, "steps"),
                    "time by seed (s)": _by_seed(line, "seconds"),
                    "cores busy": _mean([_busy(record) for record in line.records]),
                    "loss, from": _mean([r.metrics["loss"][0] for r in line.records]),
                    "to": _mean([r.metrics["loss"][-1] for r in line.records]),
                    "running maximum (%)": _mean(list(line.best().values())),
                    "always answering alike (%)": "" if majority is None else f"{majority:.1f}",
                    "at the end (%)": _mean(list(line.final().values())),
                    "questions at the end": first["items"]["final"],
                    "training prompts cut": first["truncated"]["training"],
                }
            )
    return pd.DataFrame(rows)


def out_of_memory(records: Sequence[Record]) -> pd.DataFrame:
    """Return the runs that ran out of memory and the runs that diverged."""
    rows = [
        {
            "setting": record.point["setting"],
            "data": record.point["dataset"],
            "kind": record.kind,
            "arm": LABELS[record.point["arm"]],
            "model": record.point["model"],
            "lr": record.point.get("lr") or record.metrics.get("settings", {}).get("lr"),
            "seed": record.seed,
            "ended": record.metrics.get("out_of_memory") or record.metrics["divergence"],
        }
        for kind in ("grid", "run")
        for record in of_kind(records, kind)
        if record.metrics.get("out_of_memory") or record.metrics.get("divergence")
    ]
    columns = ["setting", "data", "kind", "arm", "model", "lr", "seed", "ended"]
    return pd.DataFrame(rows, columns=columns)


def learning_rates(records: Sequence[Record]) -> pd.DataFrame:
    """Return each grid: the steps and final loss of each learning rate, and the chosen rate."""
    rows = []
    for setting in settings(records):
        grids: dict[tuple[object, ...], list[Record]] = {}
        for record in setting.grids:
            at = tuple(record.point[name] for name in ("arm", "model", "batch", "context"))
            grids.setdefault(at, []).append(record)
        for grid in grids.values():
            grid.sort(key=lambda record: float(record.point["lr"]))
            best = best_rate(grid)
            for record in grid:
                point, metrics = record.point, record.metrics
                at_edge = " (end of the grid)" if record in (grid[0], grid[-1]) else ""
                rows.append(
                    {
                        "profile": setting.profile,
                        "data": setting.title,
                        "arm": LABELS[point["arm"]],
                        "model": point["model"],
                        "lr": f"{point['lr']:g}",
                        "steps": metrics["steps"][-1] if metrics.get("steps") else "",
                        "held-out loss": f"{metrics['loss'][-1]:.4f}"
                        if metrics.get("loss")
                        else "–",  # noqa: RUF001
                        "chosen": f"yes{at_edge}" if point["lr"] == best else "",
                    }
                )
    return pd.DataFrame(rows)


def verdicts(records: Sequence[Record]) -> pd.DataFrame:
    """Return our value and the verdict on each claim, by profile."""
    rows = []
    for setting in settings(records):
        for finding in of_setting(setting):
            claim = CLAIMS[finding.claim_id]
            ours = "–" if finding.ours is None else f"{finding.ours:.4g} {claim.unit}"  # noqa: RUF001
            rows.append(
                {
                    "profile": setting.profile,
                    "data": setting.title,
                    "claim": claim.id,
                    "published": f"{SIGNS[claim.relation]}{claim.published:g} {claim.unit}",
                    "ours": ours,
                    "seeds": finding.n_seeds,
                    "verdict": shown(verdict(claim, finding), finding.profile),
                    "how, and why": finding.reason,
                }
            )
    return pd.DataFrame(rows)


def _peak(metrics: dict[str, float], kind: str, arm: str) -> dict[str, str]:
    if f"{kind}_peak_bytes" not in metrics:
        return {kind: "out of memory", f"L' {kind}": ""}
    # L' is MeZO's; older records have a number for BP, which counts gradients as layers
    layers = metrics.get(f"{kind}_effective_layers") if arm.startswith("mezo_") else None
    return {
        kind: format_bytes(metrics[f"{kind}_peak_bytes"]),
        f"L' {kind}": "" if layers is None else f"{layers:.2f}",
    }


def _by_seed(line: ArmSeeds, curve: str) -> str:
    """Return the last value of a curve for each seed, whole."""
    return ", ".join(f"{record.metrics[curve][-1]:.0f}" for record in line.records)


def _optional_bytes(count: float | None) -> str:
    return "" if count is None else format_bytes(count)


def _busy(record: Record) -> float:
    """Return the fraction of its threads' time in which a run had a core; other load lowers it."""
    seconds, threads = record.metrics["seconds"][-1], record.metrics["settings"]["threads"]
    return float(record.metrics["cpu_seconds"][-1] / (threads * seconds)) if seconds else 1.0


def _mean(values: Sequence[float]) -> str:
    """Return the mean over seeds with its 95 % interval; the empty string without seeds."""
    return estimate(values).text() if values else ""
