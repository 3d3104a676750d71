"""Numbers that the README and the notebooks' answers state in prose equal the records."""

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from repro.artifacts.shared.savings import pairs
from repro.claims.elasticzo import ROW_LABELS
from repro.claims.index import CLAIMS
from repro.claims.trained import SeedGroups
from repro.measurement.records import of_kind, read_runs
from repro.measurement.timing import ratio
from repro.report.claims_table import ClaimRow
from repro.report.notebooks import template
from repro.report.runs import current_runs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def bullet(label: str) -> str:
    """Return the item of README's list that begins with a bold label, however it is worded."""
    return README.partition(f"- **{label}.**")[2].partition("\n- ")[0].partition("\n\n")[0]


def answer(slug: str) -> str:
    """Return the first paragraph of a notebook, which states its result."""
    return template(slug).read_text(encoding="utf-8").split("\n\n")[1]


def states(text: str, numbers: Sequence[str]) -> bool:
    """Return whether a text has these numbers in this order, whatever stands between them."""
    written = iter(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text))
    return all(number in written for number in numbers)


@pytest.fixture(scope="module")
def rows(ledger: list[ClaimRow]) -> dict[str, ClaimRow]:
    return {row.id: row for row in ledger}


def accuracies(rows: dict[str, ClaimRow], dataset: str, *methods: str) -> list[str]:
    ours = [rows[f"B-T1-{dataset}-fp32-{method}"].ours for method in methods]
    return [f"{number:.1f}" for number in ours if number is not None]


def test_the_least_size_factors_are_those_of_the_ledger(rows: dict[str, ClaimRow]) -> None:
    values = rows["A1"].values
    measured = [f"{values[basis]:.2f}" for basis in ("measured", "measured, SDPA")]
    assert states(bullet("Memory"), [f"{rows['A1'].ours:g}", *measured])


def test_size_factors_are_those_of_the_simulated_steps() -> None:
    records = read_runs(current_runs(ROOT / "results", "mezo_fig3"))
    factors = {
        (p.context, p.method, p.attention): p.size_ratio
        for p in pairs(of_kind(records, "simulated")).itertuples()
        if (p.layers, p.hidden) == (32, 4096)
    }
    two = [round(factors[4096, "bp", "eager"]), round(factors[8192, "bp", "eager"])]
    long = [round(factors[32768, "bp", kind]) for kind in ("eager", "sdpa")]
    checkpointed = max(factors[32768, "bp_checkpoint", kind] for kind in ("eager", "sdpa"))
    every = [*two, *long, round(checkpointed)]
    assert states(answer("mezo_fig3"), [str(n) for n in every])


def test_the_memory_of_llama_2_7b_is_that_measured_on_a_gpu() -> None:
    wanted = {"context": 2048, "layers": 32, "hidden": 4096, "attention": "sdpa"}
    runs = read_runs(current_runs(ROOT / "results", "mezo_fig3_gpu"))
    peaks = {
        record.point["method"]: record.metrics["peak_bytes"] / 1e9
        for record in of_kind(runs, "measured")
        if all(record.point[name] == value for name, value in wanted.items())
    }
    assert states(bullet("Memory"), [f"{peaks[method]:.1f}" for method in ("mezo", "bp")])


def test_the_set_ups_of_fig_4_are_those_measured_on_a_gpu() -> None:
    runs = read_runs(current_runs(ROOT / "results", "mezo_fig3_gpu"))
    peaks = {
        (record.point["attention"], record.point["model"]): record.metrics["peak_bytes"] / 1e9
        for record in of_kind(runs, "fig4_model")
    }
    models = ("gpt2-medium", "llama-7b", "llama-13b")
    numbers = [f"{peaks[kind, model]:.1f}" for kind in ("eager", "sdpa") for model in models]
    assert states((ROOT / "docs" / "gpu.md").read_text(encoding="utf-8"), numbers)
    assert states(template("mezo_fig3_gpu").read_text(encoding="utf-8"), numbers)


def test_step_times_are_medians_of_the_rounds() -> None:
    """The smallest and the largest of the batches, as multiples of two forward passes."""
    records = list(of_kind(read_runs(current_runs(ROOT / "results", "mezo_step_time")), "steps"))

    def medians(arm: str, model: str, device: str) -> list[float]:
        return [
            ratio(record.metrics["seconds"], arm, "two_forwards")
            for record in records
            if (record.point["model"], record.point["device"]) == (model, device)
            and arm in record.metrics["seconds"]
        ]

    def ends(arm: str, model: str, device: str) -> list[str]:
        found = medians(arm, model, device)
        return [f"{min(found):.1f}", f"{max(found):.1f}"]

    def at_2048(arm: str) -> str:
        (long,) = (r for r in records if (r.point["model"], r.point["context"]) == ("7B", 2048))
        return f"{ratio(long.metrics['seconds'], arm, 'two_forwards'):.2f}"

    mezo, bp = ends("mezo_engine", "135M", "cpu"), ends("bp", "135M", "cpu")
    arms = ("mezo_philox_exact", "mezo_torch", "bp", "lora")
    exact, default, *others = (at_2048(arm) for arm in arms)
    assert states(answer("mezo_step_time"), [*mezo, *bp, exact, *others, default])
    on_cpu = [*ends("mezo_torch", "135M", "cpu"), *mezo, *bp]
    assert states(bullet("Speed of a language model"), [*on_cpu, exact, default, *others])
    table = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8").partition("| model |")[2]
    for model in ("135M", "1B", "7B"):
        (row,) = [line for line in table.splitlines() if line.strip().startswith(f"| {model} |")]
        arms = ("mezo_philox", "mezo_philox_exact", "bp")
        numbers = [number for arm in arms for number in ends(arm, model, "cuda")]
        assert states(row.partition(f" {model} ")[2], numbers)


def test_the_gap_at_equal_memory_is_that_of_the_ledger(rows: dict[str, ClaimRow]) -> None:
    row = rows["A9-order"]
    assert states(answer("mezo_fig4"), [f"{row.ours:.1f}", f"{row.interval:.1f}"])


def test_what_mezo_adds_on_boolq_is_that_of_the_records() -> None:
    records = read_runs(current_runs(ROOT / "results", "mezo_fig4"))
    (start,) = {
        record.metrics["accuracy"]
        for record in of_kind(records, "zero_shot")
        if (record.profile, record.point["model"]) == ("gpu", "qwen2.5-coder-1.5b")
    }

    def end(profile: str, arm: str) -> float:
        return fmean(
            record.metrics["final_accuracy"]
            for record in of_kind(records, "run")
            if (record.profile, record.point["arm"]) == (profile, arm)
        )

    after, longer = end("gpu", "mezo_1"), end("gpu-long", "mezo_1")
    shares = (after, end("gpu", "bp"), start, after - start, longer - start)
    numbers = [f"{100 * share:.1f}" for share in shares]
    assert states(bullet("A larger model by MeZO"), numbers)


def test_accuracies_are_those_of_table_1(rows: dict[str, ClaimRow]) -> None:
    methods = ("cls1", "full_bp", "full_zo")
    mnist = accuracies(rows, "mnist", *methods)
    assert states(bullet("Accuracy"), mnist)
    both = mnist + accuracies(rows, "fashion_mnist", *methods)
    assert states(answer("elasticzo_table1"), both)


def test_speed_ups_are_those_of_the_engine(rows: dict[str, ClaimRow]) -> None:
    speeds = [
        number
        for pick in ("smallest", "largest")
        for number in rows[f"B-F7-32-speed-up-{pick}"].values.values()
    ]
    ends = [f"{min(speeds):.1f}", f"{max(speeds):.1f}"]
    assert states(bullet("Speed of LeNet-5"), ends)
    assert states(answer("elasticzo_fig7"), ends)


def test_the_memory_of_a_step_is_that_of_the_benchmark() -> None:
    measured = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    peaks = re.findall(r"\| (?:mezo|published), float32, rounded \| ([\d.]+) \|", measured)
    assert len(peaks) == 2
    (item,) = [item for item in README.split("\n- ") if "docs/speed.md" in item.split("\n\n")[0]]
    assert states(item, [f"{float(peak):,.0f}" for peak in peaks])


def test_seconds_of_an_epoch_of_pointnet_are_those_of_the_fastest_of_a_run() -> None:
    fastest = [
        (ROW_LABELS[r.point["method"]], r.environment.cpu, min(r.metrics["seconds"]))
        for r in of_kind(read_runs(current_runs(ROOT / "results", "elasticzo_table1")), "run")
        if r.point["dataset"] == "modelnet40"
    ]
    document = (ROOT / "docs" / "ondevice.md").read_text(encoding="utf-8")
    table = document.partition("### PointNet\n")[2].partition("\n## ")[0]
    head, _, *lines = [line.split("|")[1:-1] for line in table.splitlines() if line[:1] == "|"]
    compared = 0
    for method, *cells in lines:
        for cpu, cell in zip(head[1:], cells, strict=True):
            family = re.search(r"family \d+, model \d+", cpu)
            assert family
            if cell.strip():
                found = [s for m, name, s in fastest if m == method.strip() and family[0] in name]
                assert any(seconds == pytest.approx(float(cell), abs=0.05) for seconds in found)
                compared += 1
    assert compared


def test_accuracies_of_pointnet_are_those_of_the_records_at_each_length() -> None:
    groups = SeedGroups(read_runs(current_runs(ROOT / "results", "elasticzo_table1")))
    document = (ROOT / "docs" / "discrepancies.md").read_text(encoding="utf-8")
    table = document.partition("## PointNet on ModelNet40\n")[2].partition("<!-- end of")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line[:1] == "|"]
    head, _, *lines = [[cell.strip() for cell in row] for row in rows]
    methods = {label: name for name, label in ROW_LABELS.items()}
    assert head == ["method", "50 epochs", "100 epochs", "200 epochs", "published"]
    assert len(lines) == 4
    for label, *cells, published in lines:
        point = {"dataset": "modelnet40", "precision": "fp32", "method": methods[label]}
        leading = groups.get(point)
        assert leading is not None
        by_length = {group.length: group for group in (leading, *groups.others(point))}
        for epochs, cell in zip((50, 100, 200), cells, strict=True):
            mean = epochs in by_length and fmean(by_length[epochs].last.values())
            assert cell == (f"{mean:.1f} %" if mean else "")
        claim = CLAIMS[f"B-T1-modelnet40-fp32-{methods[label]}"]
        assert published == f"{claim.published:.2f} %"
