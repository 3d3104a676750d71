"""Fig. 7: what is timed, what becomes of the times, and what the claims make of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch

from made_up import made
from reading import numbers
from repro.artifacts.elasticzo_fig7 import (
    ARTIFACT,
    PAPER,
    QUICK,
    SMOKE,
    Config,
    figures,
    tables,
)
from repro.artifacts.elasticzo_fig7 import run as run_module
from repro.artifacts.elasticzo_fig7.findings import findings
from repro.artifacts.elasticzo_fig7.run import PARTS, TimedRun, timed_epoch
from repro.artifacts.elasticzo_fig7.times import Times
from repro.claims.execution_time import CLAIMS, PHASES, QUANTITIES, SHARES, Ratio
from repro.claims.verdict import Finding, verdict
from repro.core.errors import ReproError, UsageError
from repro.core.names import ZEROTH_ORDER, Engine
from repro.harness import run_artifact
from repro.measurement.records import Record, of_kind, read_run, single
from repro.training.build import build_learner

BY_ID = {claim.id: claim for claim in CLAIMS}
TIMES = {"torch": 10.0, "native": 1.0}
OF_METHOD = {"full_zo": 1.0, "cls2": 1.25, "cls1": 1.5}
"""Factors of an epoch's time in the made-up records; INT8 takes half."""


@pytest.fixture(autouse=True)
def _no_window() -> None:
    mpl.use("agg")


def record(kind: str, point: dict[str, Any], metrics: dict[str, Any]) -> Record:
    return made(point, metrics, profile="quick", config={"threads": 1}, seed=None, kind=kind)


def epoch(engine: str, precision: str, method: str, batch: int) -> Record:
    """Three epochs, the last beside some other work: twice the time of everything."""
    whole = TIMES[engine] * OF_METHOD[method] / (2 if precision == "int8" else 1)
    shares = dict.fromkeys(PHASES, 0.0) | {"forward": 0.75, "perturb": 0.15, "update": 0.05}
    shares["backward"] = 0.04 if method == "cls1" else 0.0
    shares["other"] = 1 - sum(shares.values())
    seconds = {phase: [turn * whole * part for turn in (1, 1, 2)] for phase, part in shares.items()}
    point = {"engine": engine, "precision": precision, "method": method, "batch": batch}
    return record("epoch", point, {"seconds": seconds, "images": 1000})


def records(
    engines: Sequence[str] = ("torch", "native"), batches: Sequence[int] = (32, 256)
) -> Any:
    made = [
        epoch(engine, precision, method, batch)
        for batch in batches
        for method in ZEROTH_ORDER
        for precision in ("fp32", "int8")
        for engine in engines
    ]
    if "native" in engines:
        peaks = {"peak_fp32": [1e7, 1e7, 0.5e7], "peak_int8": [4e7, 4e7, 2e7]}
        found = {"instructions": "avx2", "multiplications": 1500, **peaks}
        made.append(record("machine", {}, found))
    return made


def test_claims_are_the_values_that_the_text_states() -> None:
    assert QUANTITIES.keys() == BY_ID.keys()
    assert len(CLAIMS) == 2 * (2 + 2 + 6)
    assert len({claim.statement for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.basis for claim in CLAIMS} == {"timed"}
    bounds = {claim.id[len("B-F7-32-") :]: (c.relation, c.published, c.digits)
              for claim in CLAIMS if (c := claim).id.startswith("B-F7-32-")}  # fmt: skip
    assert bounds == {
        "speed-up-smallest": ("equals", 1.38, 2),
        "speed-up-largest": ("equals", 1.42, 2),
        "fp32-elastic": ("equals", 1.0, 1),
        "int8-elastic": ("equals", 1.0, 1),
        "fp32-forward": ("equals", 84.3, 1),
        "int8-forward": ("equals", 94.8, 1),
        "fp32-backward": ("equals", 0.76, 2),
        "int8-backward": ("equals", 2.5, 1),
        "fp32-perturbation": ("equals", 11.8, 1),
        "int8-perturbation": ("equals", 1.2, 1),
    }
    assert [share.ends for share in SHARES[:3]] == [(84.3, 84.8), (94.8, 97.1), (0.76, 0.76)]


def test_ratios_compare_epochs_of_one_batch_size() -> None:
    for quantity in QUANTITIES.values():
        if isinstance(quantity, Ratio):
            for first, second in quantity.pairs:
                assert first["batch"] == second["batch"]
                assert sum(first[name] != second[name] for name in first) == 1


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(1.38, "not comparable"), (9.0, "not comparable"), (None, "not run")],
)  # fmt: skip
def test_a_time_on_other_hardware_is_not_comparable(ours: float | None, expected: str) -> None:
    claim = BY_ID["B-F7-32-speed-up-smallest"]
    assert verdict(claim, Finding(claim.id, ours, "")) == expected


def test_times_are_medians_and_ratios_are_taken_epoch_by_epoch() -> None:
    times = Times(records())
    zo = {"precision": "fp32", "method": "full_zo", "batch": 32}
    assert times.seconds("torch", zo) == pytest.approx(10)
    assert times.seconds("native", zo, ("perturb", "update")) == pytest.approx(0.2)
    assert times.share("native", zo, ("perturb", "update")) == pytest.approx(20)
    assert times.ratio("torch", zo, {**zo, "precision": "int8"}) == pytest.approx(2)
    assert times.gain(zo) == pytest.approx(10)
    assert times.peak_ratio() == 4
    # two passes over 1,000 images of 1,500 multiplications, in 0.75 s at a peak of 1e7
    assert times.of_peak(zo) == pytest.approx(100 * 2 * 1000 * 1500 / 0.75 / 1e7)


def test_findings_are_the_engines_with_pytorchs_beside_them() -> None:
    found = {finding.claim_id: finding for finding in findings(records())}
    assert list(found) == list(ARTIFACT.claims)
    ours = {name[len("B-F7-256-") :]: f.ours for name, f in found.items() if "-256-" in name}
    assert ours == {
        "speed-up-smallest": pytest.approx(2),
        "speed-up-largest": pytest.approx(2),
        "fp32-elastic": pytest.approx(1.5),
        "int8-elastic": pytest.approx(1.5),
        "fp32-forward": pytest.approx(75),
        "int8-forward": pytest.approx(75),
        "fp32-backward": pytest.approx(4),
        "int8-backward": pytest.approx(4),
        "fp32-perturbation": pytest.approx(20),
        "int8-perturbation": pytest.approx(20),
    }
    reason = found["B-F7-32-fp32-backward"].reason
    told = numbers(reason)
    assert told[:2] == [0, 4]  # the share of each method, in %
    assert told[-3:] == [1, 4, 4]  # threads, INT8's peak over FP32's, PyTorch's share in %
    assert "avx2" in reason


@pytest.mark.parametrize("made", [{"engines": ["torch"]}, {"batches": [64]}])
def test_what_was_not_timed_has_no_value(made: dict[str, Any]) -> None:
    assert {finding.ours for finding in findings(records(**made))} == {None}


def test_bars_of_int8_show_where_the_published_speed_up_would_end_them() -> None:
    figure = figures.fig7(records())
    engine = figure.axes[1]
    marks = [bar for bar in engine.patches if bar.get_facecolor()[3] == 0]
    assert len(marks) == 3  # Full ZO, ZO-Feat-Cls2, ZO-Feat-Cls1
    said = [text.get_text() for text in engine.texts]
    in_fp32 = [float(text.split()[0]) for text in said if text.endswith(" s")]
    assert [mark.get_x() for mark in marks] == pytest.approx([t / 1.42 for t in in_fp32], rel=0.01)
    ends = [mark.get_x() + mark.get_width() for mark in marks]
    assert ends == pytest.approx([t / 1.38 for t in in_fp32], rel=0.01)
    assert sum(": 2.00 × as fast" in text for text in said) == 3  # noqa: RUF001


def test_figures_and_tables_show_every_arm() -> None:
    made = records()
    for draw in ARTIFACT.figures.values():
        figure = draw(made)
        titles = [panel.get_title(loc="left") for panel in figure.axes]
        assert titles == [
            f"{engine}, B = {batch}"
            for batch in (32, 256)
            for engine in ("PyTorch", "on-device engine")
        ]
        widths = [sum(bar.get_width() for bar in panel.patches) for panel in figure.axes]
        assert all(width > 0 for width in widths)
    assert len(tables.seconds(made)) == 2 * 2 * 3 * 2
    assert tables.seconds(made).loc[(32, "INT8", "ZO-Feat-Cls1", "PyTorch"), "all"] == 7500
    shares = tables.shares(made)
    assert tuple(shares.loc[(256, "FP32", "Full ZO", "Forward")]) == ("84.3-84.8", "75.00", "75.00")
    ratios = tables.ratios(made)
    row = ratios.loc[(32, "INT8", "ZO-Feat-Cls1")]
    assert row["FP32 over INT8, on-device engine"] == "2.00"
    assert row["over Full ZO, PyTorch"] == "1.500"
    assert row["PyTorch over engine"] == "10.00"


def test_an_axis_of_per_cent_is_labelled_up_to_100() -> None:
    figure = figures.shares(records())
    for panel in figure.axes:
        ticks = panel.get_xticks()
        assert ticks[-1] == 100
        assert panel.get_xlim()[1] > 100  # room for what stands at the bars' ends


@pytest.mark.parametrize("made", [{"engines": ["torch"]}, {"engines": ["native"]}])
def test_one_engine_alone_can_be_shown(made: dict[str, Any]) -> None:
    for draw in ARTIFACT.figures.values():
        draw(records(**made))
    for table in (tables.seconds, tables.shares, tables.ratios):
        assert len(table(records(**made))) > 0


@pytest.mark.usefixtures("made_up_mnist", "engine")
@pytest.mark.parametrize("trainer", ["torch", "native"])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_phases_of_a_timed_epoch(trainer: Engine, precision: Any) -> None:
    made = [TimedRun(trainer, precision, method, 12) for method in ZEROTH_ORDER]
    seconds, images = timed_epoch(made, items=30)
    assert images == 30
    for arm, phases in zip(made, seconds, strict=True):
        assert phases.keys() == PHASES.keys()
        for phase in ("forward", "loss", "perturb", "update", "other"):
            assert phases[phase] > 0, (arm, phase)
        if arm.method != "full_zo":
            assert phases["backward"] > 0
        elif trainer == "torch":
            assert phases["backward"] == 0
        assert math.isfinite(sum(phases.values()))


@pytest.mark.usefixtures("made_up_mnist", "engine")
def test_timed_steps_are_those_that_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an epoch the weights of both engines are those of a learner that nobody times."""
    made: list[Any] = []

    def kept(cell: Any) -> Any:
        made.append(build_learner(cell))
        return made[-1]

    monkeypatch.setattr(run_module, "build_learner", kept)
    both: list[Engine] = ["torch", "native"]
    timed_epoch([TimedRun(engine, "int8", "cls1", 5) for engine in both], items=None)
    timed_epoch([TimedRun("torch", "fp32", "cls1", 5)], items=None)
    by_torch, native, floats = made
    assert torch.equal(by_torch.method.network.parameters, native.method.network.parameters)
    assert by_torch.method.steps == 2 + 7  # of warm-up, and 32 images, 5 at a time, in PARTS parts
    assert PARTS > 7
    assert floats.optimizer.log.steps == 2 + 7

    plain = build_learner(TimedRun("torch", "fp32", "cls1", 5).run(None))
    split = run_module.build(TimedRun("torch", "fp32", "cls1", 5).run(None))[1]
    plain.start_epoch(0)
    items = (split.train_inputs, split.train_labels, 5)
    for number, batch in enumerate(run_module.batches(*items)):
        if number < 2:
            plain.step(batch)
    for batch in run_module.batches(*items, torch.Generator().manual_seed(0)):
        plain.step(batch)
    for own, expected in zip(floats.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(own, expected)


@pytest.mark.usefixtures("made_up_mnist", "engine", "in_this_process")
def test_a_run_from_configuration_to_records(tmp_path: Path) -> None:
    config = Config(batches=(16,), epochs=2, methods=("full_zo",))
    path = run_artifact(ARTIFACT, "quick", config, tmp_path)
    run = read_run(path)
    assert len(list(of_kind(run, "epoch"))) == 4
    assert all(len(of) == 2 for r in of_kind(run, "epoch") for of in r.metrics["seconds"].values())
    machine = single(run, "machine").metrics
    # conv1, conv2, fc1, fc2, fc3 as in the paper's table of layers
    products = 6 * 25 * 28**2 + 16 * 150 * 14**2 + 784 * 120 + 120 * 84 + 84 * 10
    assert machine["multiplications"] == products
    assert all(Times(run).of_peak(point) > 0 for point in Times(run).points)


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_without_a_compiler_pytorch_alone_can_be_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ReproError, match=r"no C\+\+ compiler.*or .*--engines torch"):
        run_artifact(ARTIFACT, "smoke", SMOKE, tmp_path)
    config = Config(engines=("torch",), batches=(16,), epochs=1, methods=("full_zo",))
    run = read_run(run_artifact(ARTIFACT, "quick", config, tmp_path))
    assert {r.point["engine"] for r in run} == {"torch"}


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_epochs_of_a_killed_run_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(engines=("torch",), batches=(16,), epochs=3, methods=("full_zo",))
    timed: list[str] = []
    real = run_module.time_arms

    def counted(config: Config, epoch: str) -> Any:
        if len(timed) == 1:
            timed.append("killed")
            raise KeyboardInterrupt
        timed.append(epoch)
        return real(config, epoch)

    monkeypatch.setattr(run_module, "time_arms", counted)
    with pytest.raises(KeyboardInterrupt):
        run_artifact(ARTIFACT, "quick", config, tmp_path)
    run_artifact(ARTIFACT, "quick", config, tmp_path)
    first, killed, *others = timed
    assert killed == "killed"
    assert len({first, *others}) == 3


def test_profiles() -> None:
    assert (PAPER.image_items, PAPER.batches) == (None, (32, 256))
    assert QUICK.batches == PAPER.batches
    with pytest.raises(UsageError, match="image_items = -1"):
        Config(image_items=-1)
