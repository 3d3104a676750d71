"""What people read is made from records, the same bytes each time."""

import json
import re
from pathlib import Path
from statistics import fmean

import matplotlib.pyplot as plt
import pytest

from repro.artifacts import index
from repro.artifacts.mezo_fig3.points import ratios
from repro.artifacts.mezo_fig4.points import settings
from repro.claims.index import CLAIMS
from repro.claims.trained import Cells
from repro.core.errors import ReproError
from repro.core.names import METHOD_LABELS
from repro.core.progress import progress
from repro.core.units import format_bytes
from repro.measurement.records import Record, of_kind, read_runs
from repro.plotting.style import save, style
from repro.report import notebooks
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.markdown import BEGIN, END, update_readme
from repro.report.runs import require_runs

ROOT = Path(__file__).parents[1]


def test_readme_between_the_marks_is_replaced_and_the_rest_kept(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\n## More\n")
    update_readme(readme, tmp_path)
    once = readme.read_text()
    mezo = sum(claim.paper == "mezo" for claim in CLAIMS.values())
    assert once.startswith(f"# Title\n\n{BEGIN}\n\n| | MeZO | ElasticZO |\n")
    assert "\n| reproduced | 0 | 0 |\n" in once
    assert f"\n| not run | {mezo} | {len(CLAIMS) - mezo} |\n\n### " in once
    assert once.endswith(f"{END}\n\n## More\n")
    assert "old" not in once
    update_readme(readme, tmp_path)
    assert readme.read_text() == once


def test_what_the_readme_says_in_short_is_what_its_tables_say() -> None:
    text = (ROOT / "README.md").read_text()
    short, tables = text.split(BEGIN)
    short = short[short.index("### In short") :]
    ours = dict(re.findall(r"^\| (\S+) \|.*\| ([^|]+) \| \w+[^|]* \| [^|]+ \|$", tables, re.M))
    rows = {row.id: row for row in claim_rows(ROOT / "results")}
    said = re.findall(r"([\d.]+(?: ± [\d.]+)? \S+)\s+\(`([^`]+)`\)", short)
    assert len(said) == short.count("(`")
    assert said == [(ours[claim].partition(" (p = ")[0], claim) for _, claim in said]
    for claim, row in rows.items():
        if re.match(r"B-T1-\w*mnist|B-T2-.*-(fp32|int8)-(cls|full_bp)", claim):
            missed = re.fullmatch(
                r"B-T1-(fashion_mnist-fp32-full_zo|mnist-int8-order)|B-T2-((fashion_)?mnist-30-fp32-cls2|mnist-(30|45)-fp32-cls1-gain"
                r"|mnist-30-fp32-cls2-gain)",
                claim,
            )
            assert (row.verdict in {"reproduced", "close"}) == (missed is None), claim
    assert [
        claim
        for claim, row in rows.items()
        if re.match(r"B-T2-.*fp32-full_zo", claim) and row.verdict == "contradicted"
    ] == ["B-T2-mnist-30-fp32-full_zo"]
    before = [row.verdict for claim, row in rows.items() if re.match(r"B-T2-.*-none", claim)]
    assert before.count("contradicted") > len(before) / 2


def in_short(name: str) -> str:
    """Return a paragraph of the README's summary, on one line."""
    head = (ROOT / "README.md").read_text().split(BEGIN)[0]
    short = head.partition("### In short")[2].replace("\N{MULTIPLICATION SIGN}", "x")
    (found,) = re.findall(rf"^- \*\*{name}\.?\*\*(.*?)(?=^- \*\*|^###)", short, re.M | re.S)
    return " ".join(found.split())


def test_what_is_said_in_short_of_llama_is_in_the_records() -> None:
    points = ratios(of_kind(read_runs(require_runs(ROOT / "results", "mezo_fig3")), "simulated"))
    at = {
        (point.context, point.attention, point.method): point.ratio
        for point in points
        if (point.layers, point.hidden) == (32, 4096)
    }
    assert re.findall(r"([\d.]+) x(?! \()", in_short("MeZO's memory")) == [
        f"{at[2048, 'sdpa', 'bp_checkpoint']:.1f}",
        f"{at[2048, 'eager', 'bp']:.1f}",
        f"{at[2048, 'eager', 'bp_checkpoint']:.1f}",
        f"{at[32768, 'sdpa', 'bp']:.1f}",
        f"{at[32768, 'sdpa', 'bp_checkpoint']:.2f}",
    ]
    assert at[2048, "sdpa", "bp"] == at[2048, "sdpa", "bp_checkpoint"]
    assert at[32768, "eager", "bp_checkpoint"] == min(point.ratio for point in points)


def test_what_is_said_in_short_of_boolq_is_in_the_records() -> None:
    hours = [
        r for r in read_runs(require_runs(ROOT / "results", "mezo_fig4")) if r.profile == "hours"
    ]
    (setting,) = (s for s in settings(hours) if s.dataset == "boolq")
    ends = {(line.arm, line.model): fmean(line.final().values()) for line in setting.lines}
    said = in_short('"Equal memory" in MeZO\'s Fig. 4')
    assert "of all 3,270 questions of BoolQ's validation" in said
    assert f"BP on SmolLM2-135M answers {ends['bp', 'smollm2-135m']:.1f} %" in said
    assert f"MeZO on Gemma-3-270M {ends['mezo_5', 'gemma3-270m']:.1f} %" in said
    assert f"always answering alike is right in {setting.majority('final'):.1f} %" in said
    assert "by two seeds" in said
    assert {len(line.records) for line in setting.lines} == {2}
    assert {line.settings["seconds"] for line in setting.lines} == {1800}
    items = {r.metrics["items"]["final"] for line in setting.lines for r in line.records}
    assert items == {3270}


def test_what_is_said_in_short_of_pointnet_is_in_the_records() -> None:
    head = (ROOT / "README.md").read_text().split(BEGIN)[0]
    said = re.findall(r"([\d.]+) / ([\d.]+) / ([\d.]+) / ([\d.]+) %", head)
    cells = Cells(read_runs(require_runs(ROOT / "results", "elasticzo_table1")))
    for dataset, numbers in zip(("shrec11", "shapes40"), said, strict=True):
        point = {"dataset": dataset, "precision": "fp32"}
        found = [cells.get({**point, "method": method}) for method in METHOD_LABELS]
        means = [fmean(cell.last.values()) for cell in found if cell and len(cell.last) == 3]
        assert numbers == tuple(f"{mean:.1f}" for mean in means), dataset


def test_what_is_said_in_short_of_the_engines_memory_is_in_its_table() -> None:
    table = (ROOT / "docs" / "memory.md").read_text()
    block = {
        line.group(1, 2): [
            int(cell.split(" / ")[2].replace(",", "")) for cell in line[3].split("|")
        ]
        for line in re.finditer(r"^\| LeNet-5 \| (\S+) \| (Full \w+) \| (.*) \|$", table, re.M)
    }
    _, small, large = block["INT8", "Full ZO"]
    _, float_small, float_large = block["FP32", "Full ZO"]
    said = in_short("ElasticZO's memory")
    assert f"BP takes {block['INT8', 'Full BP'][1] / small:.1f} x in INT8 at B = 32" in said
    assert f"INT8 saves {float_small / small:.2f} to {float_large / large:.2f} x" in said


def test_what_is_said_in_short_of_other_steps_than_vnnis_was_timed() -> None:
    said = in_short("Time")
    speed = (ROOT / "docs" / "speed.md").read_text()
    *wide, baseline = (
        [float(cell) for cell in line.split(" | ")]
        for line in re.findall(r"^\| (?:avx512|avx2|baseline) fp32/int8\* \| (.*) \|$", speed, re.M)
    )
    assert f"{min(map(min, wide)):.2f} to {max(map(max, wide)):.2f} x by AVX-512 or AVX2" in said
    assert {f"{ratio:.1f} x by the baseline" in said for ratio in baseline} == {True}
    reasons = {row.id: row.reason for row in claim_rows(ROOT / "results", ["elasticzo_fig7"])}
    torch = [
        float(reasons[f"B-F7-{batch}-speed-up-{end}"].partition("steps: ")[2].rstrip(" x"))
        for batch in (32, 256)
        for end in ("smallest", "largest")
    ]
    assert "{:.2f} to {:.2f} x at B = 32 and {:.2f} to {:.2f} x at 256".format(*torch) in said


@pytest.mark.parametrize("text", ["# Title\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n"])
def test_readme_without_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(ReproError, match="where the results belong"):
        update_readme(readme, tmp_path)
    assert readme.read_text() == text


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    def drawn(directory: Path) -> list[bytes]:
        with style():
            figure, panel = plt.subplots()
            panel.plot([1, 2, 3], label="line")
            panel.legend()
        return [path.read_bytes() for path in save(figure, directory, "figure")]

    assert drawn(tmp_path / "a") == drawn(tmp_path / "b")


@pytest.mark.parametrize("slug", index.SLUGS)
def test_committed_claims_have_a_reason_and_what_is_computed_a_value(slug: str) -> None:
    for row in claim_rows(ROOT / "results", [slug]):
        assert row.reason
        if row.basis != "trained":  # cells may wait for their run, or for a data set
            assert row.ours is not None, row.id
            assert row.records


@pytest.mark.parametrize("slug", index.SLUGS)
def test_notebook_is_stale_once_records_or_template_change(slug: str, tmp_path: Path) -> None:
    runs = require_runs(ROOT / "results", slug)
    made = ROOT / "notebooks" / f"{slug}.ipynb"
    assert notebooks.is_stale(slug, tmp_path / "absent.ipynb", runs)
    damaged = tmp_path / "damaged.ipynb"
    damaged.write_bytes(made.read_bytes()[:1000])
    assert notebooks.is_stale(slug, damaged, runs)
    changed = tmp_path / runs[0].name
    changed.write_bytes(runs[0].read_bytes().replace(b'"metrics"', b' "metrics"', 1))
    assert notebooks.is_stale(slug, made, [changed, *runs[1:]])
    another = tmp_path / "paper-20300101T000000Z-nocommit.jsonl"
    another.write_bytes(runs[0].read_bytes())
    assert notebooks.is_stale(slug, made, [another, *runs])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (1000, "1 kB"),
        (14_430_000_000, "14.4 GB"),
        (-2_500_000, "-2.5 MB"),
        (7.009e12, "7.01 TB"),
        (1e18, "1000 PB"),
    ],
)
def test_bytes_as_people_read_them(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_progress_without_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("measuring", 3) as shown:
        for name in "abc":
            shown.advance(name)
    assert capsys.readouterr().err == "measuring: 3/3 (c)\n"


def test_documented_json_has_every_field() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    documented = {
        title: set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    }
    assert documented["`repro claims --json`"] == {
        *ClaimRow.__dataclass_fields__,
        "difference",
    }
    assert documented["Records"] == set(Record.__struct_fields__)
    assert documented["`repro list --json`"] == {"slug", "paper", "title", "claims", "profiles"}


def test_notebooks_hold_no_path_of_a_machine() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert str(Path.home()) + "/" not in json.dumps(cells)
        assert str(ROOT) not in json.dumps(cells)
