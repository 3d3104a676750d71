"""The committed records of Fig. 3, and what is drawn and tabulated from them."""

import math
from pathlib import Path

import msgspec
import pytest

from repro.artifacts.mezo_fig3 import figures, tables
from repro.artifacts.mezo_fig3.figures import BP_LABELS, fig3, recovered_ratio
from repro.artifacts.shared.decoder_steps import simulate_decoder_step
from repro.artifacts.shared.savings import QUOTED, WHERE, at, pairs
from repro.claims.index import CLAIMS
from repro.measurement.records import Record, of_kind, read_runs, single
from repro.memory.readings import RECOVERED
from repro.memory.shape import DecoderShape
from repro.memory.step import Method, StepSpec
from repro.report.runs import require_runs

RESULTS = Path(__file__).parents[1] / "results"
POINT = "o"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_runs(require_runs(RESULTS, "mezo_fig3"))


def test_measured_mezo_step_takes_what_a_forward_pass_takes(records: list[Record]) -> None:
    points = pairs(of_kind(records, "measured"), ["mezo"], "forward")
    assert len(points) >= 20
    objects = 8192  # of the interpreter: the step's own, in 220 KB of the smallest pass
    assert (points["step_bytes"] <= 1.02 * points["step_bytes_over"] + objects).all()


def test_simulated_weights_are_those_of_the_parameter_table(records: list[Record]) -> None:
    table = single(records, "parameters")
    same = [
        r
        for r in of_kind(records, "simulated")
        if all(r.point[name] == table.point[name] for name in ("layers", "hidden"))
    ]
    assert same
    parameters = sum(table.metrics["table"].values())
    assert {r.metrics["parameters_bytes"] for r in same} == {2 * parameters}


def test_simulated_parts_add_up(records: list[Record]) -> None:
    parts = ("parameters", "gradients", "activations", "temporaries", "other")
    for record in of_kind(records, "simulated"):
        total = sum(record.metrics[f"{part}_bytes"] for part in parts)
        assert total == record.metrics["peak_bytes"]


def test_the_table_of_parts_takes_what_a_step_is_simulated_to_hold(records: list[Record]) -> None:
    spec = StepSpec(DecoderShape(8, 2, 16, 2, 32), "bp", "eager", "float16")
    made = msgspec.structs.replace(
        next(of_kind(records, "simulated")),
        point=spec.as_dict(),
        metrics=simulate_decoder_step(spec) | {"formula_bytes": 1.0},
        config=spec.as_dict(),
    )
    (row,) = tables.breakdown([made]).to_dict("records")
    assert {"parameters", "gradients", "activations", "peak"} <= row.keys()
    assert not {"formula", "int32 buffers"} & row.keys()


def test_ratios_pair_the_records_of_one_shape(records: list[Record]) -> None:
    points = pairs(of_kind(records, "simulated"))
    base = at(points, {"context": 2048, "layers": 32, "hidden": 4096, "attention": "eager"})
    eager = base.set_index("method")
    # the peaks that an independent trial of the same step found, in GB
    assert round(eager.peak_bytes["bp"] / 1e9, 1) == 52.6
    assert round(eager.peak_bytes["bp_checkpoint"] / 1e9, 1) == 28.4
    assert round(eager.peak_bytes_over["bp"] / 1e9, 1) == 14.9
    assert eager.ratio["bp"] == pytest.approx(52.59 / 14.93, rel=1e-3)


def test_six_panels_show_every_line_and_point(records: list[Record]) -> None:
    analytic = {
        r.point["axis"]: r.metrics
        for r in of_kind(records, "analytic")
        if r.point["scope"] == "paper"
    }
    figure = figures.fig3_memory(records)
    titles = ("memory", "formula /\nobserved")
    grid = figure.axes  # four rows of three
    assert [axes.get_ylabel() for axes in grid[::3]] == [*titles, *titles]
    panels = [*grid[:3], *grid[6:9]]
    for number, (panel, axis) in enumerate(zip(panels, [*analytic, *analytic], strict=True)):
        suffix = "_checkpoint" if number >= 3 else ""
        lines = [line for line in panel.lines if line.get_marker() != POINT]
        drawn = [list(line.get_ydata()) for line in lines]
        assert drawn == [analytic[axis][f"bp{suffix}_bytes"], analytic[axis]["mezo_bytes"]]
        config = records[0].config
        here = config[f"simulate_{axis}{'s' if axis != 'layers' else ''}"]
        markers = [line for line in panel.lines if line.get_marker() == POINT]
        assert len(markers) == 2 * 2 * len(here)  # methods, kernels
        eager, sdpa = ([m for m in markers if (m.get_markerfacecolor() != "none") == filled]
                       for filled in (True, False))  # fmt: skip
        assert len(eager) == len(sdpa)
        inside = max(m.get_markersize() for m in eager)
        assert inside < min(m.get_markersize() for m in sdpa)  # else rings would cover them
    numbers = [
        any(label.label1.get_visible() for label in axes.xaxis.get_major_ticks()) for axes in grid
    ]
    assert numbers == 2 * [*3 * [False], *3 * [True]]  # below each strip, and there alone


def test_the_main_figure_has_the_ratios_of_simulated_steps(records: list[Record]) -> None:
    figure = fig3(records)
    top, bottom = figure.axes[0], figure.axes[3]
    ends = [
        {round(float(line.get_ydata()[0]), 2) for line in panel.lines
         if line.get_marker() == POINT and line.get_xdata()[0] == 32768}
        for panel in (top, bottom)
    ]  # fmt: skip
    points = pairs(of_kind(records, "simulated"))
    long = {"context": 32768, "layers": 32, "hidden": 4096}
    for drawn, method in zip(ends, BP_LABELS, strict=True):
        ratios = at(points, long | {"method": method}).ratio
        assert drawn == {round(ratio, 2) for ratio in ratios}
        assert len(drawn) == 2  # eager attention and SDPA


def test_every_printed_ratio_lies_on_the_recovered_line(records: list[Record]) -> None:
    """By the recovered equations written out anew: no gradients of V x D, ceil(sqrt(L)) layers."""
    b, V, H = 2, 32000, 32
    usual = {"context": 2048, "layers": 32, "hidden": 4096}
    config = records[0].config
    for (method, axis), numbers in _printed().items():
        for value, place in numbers:
            N, L, D = ((usual | {axis: place})[name] for name in usual)
            layer = N * D * (2 + 16 * b + (2 * b + 1) * N * H / D)
            kept = math.ceil(math.sqrt(L)) if method == "bp_checkpoint" else L
            bp = 24 * b * L * D**2 + 2 * b * V * D + kept * layer
            mezo = 12 * b * L * D**2 + 2 * b * V * D + layer
            drawn = float(recovered_ratio(config, axis, [place], method)[0])
            assert drawn == pytest.approx(bp / mezo)
            digits = len(f"{value:g}".partition(".")[2])
            assert round(drawn, digits) == value


def _printed() -> dict[tuple[str, str], list[tuple[float, int]]]:
    """Each printed ratio, and the value on its axis at which the recovered equations give it."""
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for claim_id, (method, axis, value, _) in QUOTED.items():
        place = RECOVERED.long_context if axis == "context" else value
        found.setdefault((method, axis), []).append((CLAIMS[claim_id].published, place))
    found["bp_checkpoint", "layers"].append((2.28, 17))
    return found


def test_both_sets_of_lines_are_drawn(records: list[Record]) -> None:
    figure = fig3(records)
    analytic = {
        r.point["axis"]: r.metrics
        for r in of_kind(records, "analytic")
        if r.point["scope"] == "paper"
    }
    panels = zip(figure.axes, [*analytic, *analytic], strict=True)
    for number, (panel, axis) in enumerate(panels):
        method = "bp_checkpoint" if number >= 3 else "bp"
        recovered, printed = (line for line in panel.lines if len(line.get_xdata()) > 1)
        curve = analytic[axis]
        ratio = [a / b for a, b in zip(curve[f"{method}_bytes"], curve["mezo_bytes"], strict=True)]
        assert list(printed.get_ydata()) == pytest.approx(ratio)
        assert list(recovered.get_ydata()) != pytest.approx(ratio)
        stars = [line for line in panel.lines if line.get_marker() == "*"]
        wanted = _printed()[method, axis]
        assert len(stars) == len(wanted) * (2 if axis == "context" else 1)  # once more, moved


def test_prediction_figure_shows_every_training_step(records: list[Record]) -> None:
    steps = [
        r
        for kind in ("simulated", "measured")
        for r in of_kind(records, kind)
        if r.point["method"] != "forward"
    ]
    figure = figures.predicted(records)
    shown = sum(line.get_marker() in ("o", "s") for axes in figure.axes for line in axes.lines)
    assert shown == len(steps)


@pytest.mark.parametrize("kind", ["simulated", "measured"])
def test_tables_have_a_row_for_every_point(records: list[Record], kind: str) -> None:
    assert len(tables.points(records, kind)) == len(list(of_kind(records, kind)))


def test_parameter_table_is_that_of_llama_2_7b(records: list[Record]) -> None:
    table = tables.parameters(records)
    assert table.loc["all", "parameters"] == "6,738,415,616"
    assert table.loc["LM head", "parameters"] == f"{32000 * 4096:,}"
    assert len(tables.breakdown(records)) == 6


def test_the_model_that_mezo_trains_in_the_memory_of_bp_fits_and_one_more_layer_does_not(
    records: list[Record],
) -> None:
    def step(layers: int, method: Method) -> Record:
        shape = DecoderShape(context=64, layers=layers, hidden=64, heads=4, vocabulary=256)
        spec = StepSpec(shape, method, "eager", "float32")
        metrics = simulate_decoder_step(spec)
        return msgspec.structs.replace(records[0], point=spec.as_dict(), metrics=metrics)

    bp, mezo = step(3, "bp"), step(3, "mezo")
    (size_ratio,) = pairs([bp, mezo])["size_ratio"]
    parameters = mezo.metrics["parameters_bytes"]
    of_layer = step(4, "mezo").metrics["parameters_bytes"] - parameters
    grown = 3 + math.floor((size_ratio - 1) * parameters / of_layer)
    fits, too_large = (step(n, "mezo").metrics["peak_bytes"] for n in (grown, grown + 1))
    assert fits <= bp.metrics["peak_bytes"] < too_large
    assert grown > 6


def test_steps_of_different_devices_are_not_paired(records: list[Record]) -> None:
    measured = list(of_kind(records, "measured"))
    larger = [
        msgspec.structs.replace(
            record,
            point={**record.point, "device": "cuda"},
            metrics={**record.metrics, "peak_bytes": 9 * record.metrics["peak_bytes"]},
        )
        for record in measured
        if record.point["method"] == "mezo"
    ]
    assert larger
    both, of_one = (
        pairs(found, ["mezo"], "forward").sort_values(WHERE, ignore_index=True)
        for found in ([*measured, *larger], measured)
    )
    assert both.equals(of_one)
    assert tables.points([*larger, *measured], "measured").equals(
        tables.points(measured, "measured")
    )
    assert len(tables.points(larger, "measured")) == len(larger)
    elsewhere = msgspec.structs.replace(larger[0], point={**larger[0].point, "context": 1 << 20})
    assert len(tables.points([*measured, *larger, elsewhere], "measured")) == len(measured) + 1
    assert pairs([*larger, *(r for r in measured if r.point["method"] == "forward")]).empty
    assert set(pairs(larger, ["mezo"], "mezo")["device"]) == {"cuda"}
