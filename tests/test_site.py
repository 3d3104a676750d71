"""The static site: whole, deterministic, without a request to anywhere, and true to the records."""

import hashlib
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import shutil
from collections import Counter
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from markupsafe import escape

from repro.artifacts import index
from repro.claims.verdict import INCONSISTENT, NOT_DECIDABLE, VERDICTS
from repro.cli import main
from repro.commands.options import parse
from repro.commands.run import RunOptions
from repro.core.errors import ReproError, UsageError
from repro.harness import config_dict
from repro.measurement.records import CUSTOM, read_run, write_run
from repro.report import formatting
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.headlines import HEADLINES
from repro.report.notebooks import assemble, template
from repro.report.runs import current_runs
from repro.site import pages, provenance, text
from repro.site.build import build
from repro.site.documents import OVERVIEW, Documents, anchor
from repro.site.publish import MANIFEST, MARK, published
from repro.site.reference import PACKAGES, reference

ROOT = Path(__file__).parents[1]
DOCUMENTS = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem != OVERVIEW]
EXPLAINED = (INCONSISTENT, NOT_DECIDABLE)
SHOWN = ("elasticzo_table2", "elasticzo_fig2", "elasticzo_fig7")  # seeds, no claims, times


class Page(HTMLParser):
    """What a page refers to and what can be referred to on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.alts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif "src" in values or "href" in values:
            self.loads.append(values.get("src", values.get("href", "")))
        if tag == "img":
            self.alts.append(values.get("alt", ""))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of some artifacts; all others are not run."""
    directory = tmp_path_factory.mktemp("results")
    for slug in SHOWN:
        shutil.copytree(ROOT / "results" / slug, directory / slug)
    return directory


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("built") / "site"
    notebooks = tmp_path_factory.mktemp("notebooks")
    for slug in SHOWN[:2]:
        shutil.copy(ROOT / "notebooks" / f"{slug}.ipynb", notebooks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE_DIR", str(target.parent / "cache"))
        build(results, notebooks, ROOT, target)
    return target


@pytest.fixture(scope="module")
def rows(results: Path) -> list[ClaimRow]:
    return claim_rows(results)


@pytest.fixture
def _built_before(site: Path, tmp_path: Path) -> None:
    """The cache has what the site took to build."""
    shutil.copytree(site.parent / "cache", tmp_path / "cache", dirs_exist_ok=True)


def test_every_link_leads_somewhere(site: Path) -> None:
    found = {path: Page(path) for path in site.rglob("*.html")}
    assert len(found) == 3 + len(index.SLUGS) + 2 + len(DOCUMENTS) + len(PACKAGES)
    for path, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "https" and path.parent.name == "docs":
                continue  # of a document: to what is no part of the clone
            assert not parts.scheme, link
            goal = (path.parent / parts.path).resolve() if parts.path else path
            assert goal.is_file(), f"{path}: {link}"
            if parts.fragment and "=" not in parts.fragment:  # that asks the filter
                assert unquote(parts.fragment) in found[goal].ids, f"{path}: {link}"
        assert len(set(page.ids)) == len(page.ids), path


def test_no_page_asks_anybody_for_anything(site: Path) -> None:
    for path in site.rglob("*.html"):
        for source in Page(path).loads:
            assert source.startswith("data:") or (path.parent / source).is_file(), source
        assert "default-src 'none'" in path.read_text(encoding="utf-8")
    for path in (site / "site.css", *site.glob("*.js")):
        if path.name == "entries.js":
            continue  # text that the search finds, which may name addresses
        assert not re.search(r"https?:|//\w|url\(|@import|fetch", path.read_text(encoding="utf-8"))


def test_every_image_says_what_it_shows(site: Path) -> None:
    alts = {path: Page(path).alts for path in site.rglob("*.html")}
    assert all(map(all, alts.values()))
    figures = [alt for path, found in alts.items() if path.parent.name != "docs" for alt in found]
    assert len(figures) >= 4
    assert all(len(alt) > 30 for alt in figures)


def test_every_claim_is_listed_once_and_counted(site: Path, rows: list[ClaimRow]) -> None:
    listed = (site / "index.html").read_text(encoding="utf-8")
    marks = re.findall(r'<tr data-verdict="(.*?)" data-paper="(.*?)" data-artifact', listed)
    assert [(unescape(verdict), paper) for verdict, paper in marks] == [
        (row.verdict, row.paper) for row in rows
    ]
    for verdict, count in Counter(row.verdict for row in rows).items():
        assert f"<b>{count}</b> {escape(verdict)}</a>" in listed
    assert json.loads((site / "claims.json").read_text()) == json.loads(
        json.dumps([row.as_dict() for row in rows])
    )


def test_an_artifacts_page_has_its_claims_and_how_they_were_made(site: Path, results: Path) -> None:
    page = (site / "artifacts" / "elasticzo_table2.html").read_text(encoding="utf-8")
    rows = claim_rows(results, ["elasticzo_table2"])
    for row in rows:
        assert f'<tr id="{row.id}">' in page
    assert any(formatting.bootstrap(row) in page for row in rows if row.bootstrap)
    runs = current_runs(results, "elasticzo_table2")
    for run in runs:
        here = read_run(run)[-1].environment
        assert (site / "records" / "elasticzo_table2" / run.name).read_bytes() == run.read_bytes()
        assert here.commit is not None
        assert here.commit[:12] in page
        assert f"{here.cpu}, {here.cores} cores" in page
    assert len(provenance.current_records(runs)) == len(re.findall('<tr id="record-', page))
    assert "From records" in page
    deviation = re.search(r"^1\. (\w+ \w+)", index.load("elasticzo_table2").about or "", re.M)
    assert deviation is not None
    assert f"<li>{deviation[1]}" in page


def test_a_claim_that_does_not_hold_leads_to_its_suspected_cause(
    site: Path, rows: list[ClaimRow]
) -> None:
    causes = (site / "docs" / "discrepancies.html").read_text(encoding="utf-8")
    named = {*re.findall(r'<a id="([AB][\w-]*)"', causes)}
    explained = [row for row in rows if row.id in named]
    assert len(explained) >= 10
    for path, root in ((site / "index.html", ""), (site / "artifacts" / "{}.html", "../")):
        for row in explained:
            if row.verdict in EXPLAINED:
                page = Path(str(path).format(row.artifact))
                assert f"{root}docs/discrepancies.html#{row.id}" in Page(page).links


@pytest.mark.parametrize("slug", index.SLUGS)
def test_an_artifacts_page_opens_with_the_answer_of_its_notebook(site: Path, slug: str) -> None:
    answer = re.search(r"^\*\*([^*]+?)[*.,:]", template(slug).read_text(), re.MULTILINE)
    assert answer is not None
    page = (site / "artifacts" / f"{slug}.html").read_text()
    before_figures, _, _ = page.partition("<figure>")
    shown = unescape(re.sub(r"<[^>]+>", "", before_figures))
    assert " ".join(answer[1].split()) in " ".join(shown.split())


def test_the_index_has_the_headlines(site: Path) -> None:
    ends = {link.partition("#")[2] for link in Page(site / "index.html").links}
    assert HEADLINES.keys() <= ends


def test_documents_are_listed_by_reader(site: Path) -> None:
    readers = Documents(ROOT, []).readers()
    assert [reader.partition(":")[0] for reader, _ in readers] == [
        "For researchers",
        "For builders",
        "For edge engineers",
        "For contributors",
    ]
    lines = "".join(line for _, found in readers for line in found)
    links = re.findall(r'href="docs/(\w+)\.html', lines)
    assert {*links} == {path.stem for path in DOCUMENTS} - {"glossary"}
    assert {f"docs/{name}.html" for name in links} <= {
        link.partition("#")[0] for link in Page(site / "index.html").links
    }


def test_the_search_knows_every_section_and_statement(site: Path, rows: list[ClaimRow]) -> None:
    script = (site / "entries.js").read_text(encoding="utf-8")
    entries = json.loads(script.partition("const ENTRIES = ")[2].rstrip().removesuffix(";"))
    addresses = [address for _, _, address, _ in entries]
    assert len({*addresses}) == len(addresses)
    page = cache(Page)
    for address in addresses:
        path, _, place = address.partition("#")
        assert place in page(site / path).ids, address
    assert sum(kind == "statement" for kind, *_ in entries) == len(rows)
    texts = [*(path.read_text(encoding="utf-8") for path in DOCUMENTS), *map(reference, PACKAGES)]
    headings = sum(len(re.findall("^#{1,3} ", prose(text), re.MULTILINE)) for text in texts)
    assert len(addresses) == headings + len(rows)


def prose(text: str) -> str:
    """Return a document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_class_and_function_with_its_parameters(
    package: str,
) -> None:
    """By import and ``inspect``, where the reference parses."""
    said, found = reference(package), 0
    place = importlib.import_module(f"repro.{package}").__path__
    for info in pkgutil.iter_modules(place):
        module = importlib.import_module(f"repro.{package}.{info.name}")
        for name, member in vars(module).items():
            if getattr(member, "__module__", "") != module.__name__ or name.startswith("_"):
                continue
            if not (inspect.isclass(member) or inspect.isfunction(member)):
                continue
            if inspect.isclass(member) and (
                issubclass(member, dict | Exception) or getattr(member, "_is_protocol", False)
            ):
                continue  # they have no parameters of their own
            _, _, entry = said.partition(f"### `{info.name}.{name}`\n")
            assert entry, name
            code = re.split(r"^#", entry, maxsplit=1, flags=re.MULTILINE)[0]
            for parameter in inspect.signature(member).parameters:
                assert re.search(rf"\b{parameter}\b", code), (name, parameter)
            found += 1
    assert found > 5


def test_every_page_has_an_icon_and_a_description(site: Path) -> None:
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert len(re.findall('<meta name="description" content="[^"]{30,160}">', html)) == 1, path
        assert re.search('rel="icon" href="([./]*favicon.svg|data:image/svg)', html), path


@pytest.mark.usefixtures("_built_before")
def test_a_second_build_renders_no_page_of_an_artifact_again(
    results: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    whole = pages.Pages.artifact

    def counted(own: pages.Pages, exhibit: pages.Exhibit) -> str:
        rendered.append(exhibit.slug)
        return whole(own, exhibit)

    monkeypatch.setattr(pages.Pages, "artifact", counted)
    own = shutil.copytree(results, tmp_path / "results")
    build(own, site / "notebooks", ROOT, tmp_path / "second")
    assert rendered == []
    assert (tmp_path / "second" / MANIFEST).read_bytes() == (site / MANIFEST).read_bytes()
    run = max((own / "elasticzo_fig7").glob("*.jsonl"))
    run.write_bytes(run.read_bytes().replace(b"{", b"{ ", 1))
    build(own, site / "notebooks", ROOT, tmp_path / "third")
    assert rendered == ["elasticzo_fig7"]


def test_documents_that_pages_name_are_links_and_code_is_not_on_the_site(site: Path) -> None:
    page = Page(site / "artifacts" / "elasticzo_table1.html")
    assert "../docs/integer.html" in page.links
    plan = (site / "docs" / "plan.html").read_text(encoding="utf-8")
    assert "<code>families.py</code>" in plan
    assert "repro/planner/families.py" not in plan
    assert "memory.html#in-kibibytes" in Page(site / "docs" / "plan.html").links


@pytest.mark.parametrize(
    ("heading", "named"),
    [
        ("In kibibytes", "in-kibibytes"),
        ("Noise for PyTorch's models", "noise-for-pytorchs-models"),
        ("<code>a_b</code>, and 3 &lt; 4", "a_b-and-3--4"),
    ],
)
def test_headings_are_named_as_on_github(heading: str, named: str) -> None:
    assert anchor(heading) == named


def test_a_directory_without_documents_is_told(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --documents DIR"):
        build(results, tmp_path, tmp_path, tmp_path / "site")
    assert not any(tmp_path.iterdir())


def test_what_was_not_run_says_how_to(site: Path) -> None:
    page = (site / "artifacts" / "mezo_fig3.html").read_text(encoding="utf-8")
    assert "<code>repro run mezo_fig3</code>" in page
    assert "<h2>Figures</h2>" not in page
    assert "notebook" not in page


def test_the_manifest_names_every_file_with_its_hash(site: Path) -> None:
    lines = (site / MANIFEST).read_text().splitlines()
    named = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name, digest in named.items():
        assert hashlib.sha256((site / name).read_bytes()).hexdigest() == digest
    there = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    assert there == {*named, MANIFEST}


def test_an_earlier_site_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "site"
    for name in ("old.html", "new.html"):
        with published(target) as directory:
            (directory / name).write_text(name)
    assert {path.name for path in target.iterdir()} == {MARK, MANIFEST, "new.html"}
    assert [path.name for path in target.parent.iterdir()] == ["site"]
    assert target.stat().st_mode & 0o777 == (tmp_path / "deep").stat().st_mode & 0o777


def test_a_failure_leaves_the_earlier_site(tmp_path: Path) -> None:
    target = tmp_path / "site"
    with published(target) as directory:
        (directory / "page.html").write_text("whole")
    with (
        pytest.raises(ReproError, match=r"page.html: No such file .* as it was"),
        published(target) as directory,
    ):
        (directory / "page.html").rename(directory / "nowhere" / "page.html")
    assert (target / "page.html").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_other_files_are_never_lost(tmp_path: Path) -> None:
    foreign = tmp_path / "papers"
    foreign.mkdir()
    with published(foreign) as directory:  # empty: may be filled
        (directory / "page.html").write_text("ours")
    (foreign / "thesis.tex").write_text("theirs")
    with pytest.raises(UsageError, match=r"holds thesis.tex, which is no part"), published(foreign):
        pass
    (foreign / "thesis.tex").unlink()
    with pytest.raises(UsageError, match=r"holds notes.txt"), published(foreign):
        (foreign / "notes.txt").write_text("written meanwhile")
    assert (foreign / "notes.txt").read_text() == "written meanwhile"
    (foreign / "notes.txt").unlink()
    (foreign / "thesis.tex").write_text("theirs")
    (foreign / MARK).unlink()
    (foreign / MANIFEST).write_text(f"{'0' * 64}  page.html\n{'0' * 64}  thesis.tex\n")
    with pytest.raises(UsageError, match="is no site of this suite"), published(foreign):
        pass  # all files are in its sums, but they are not ours
    (foreign / MANIFEST).unlink()
    with pytest.raises(UsageError, match="is no site of this suite"), published(foreign):
        pass
    with pytest.raises(UsageError, match="is no site"), published(foreign / "thesis.tex"):
        pass
    assert (foreign / "thesis.tex").read_text() == "theirs"


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReproError, match="give another directory"), published(tmp_path / "file/s"):
        pass


@pytest.mark.usefixtures("_built_before")
def test_the_command_writes_the_site(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "results"
    shutil.copytree(results / "elasticzo_fig7", own / "elasticzo_fig7")
    where = ["--results", str(own), "--notebooks", str(tmp_path)]
    assert main(["report", "elasticzo_fig7", *where, "--html", str(tmp_path / "site")]) == 0
    *drawn, last = capsys.readouterr().out.splitlines()
    assert last == str(tmp_path / "site" / "index.html")
    assert drawn
    assert all(Path(path).is_file() for path in drawn)  # and not the claims, which it shows


def test_a_directory_in_use_is_refused_before_anything_is_drawn(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = shutil.copytree(results, tmp_path / "results")
    (own / "elasticzo_fig7" / "figures" / "fig7.svg").unlink()
    (tmp_path / "thesis.tex").write_text("theirs")
    where = ["--results", str(own), "--html", str(tmp_path)]
    assert main(["report", "elasticzo_fig7", *where]) == UsageError.exit_code
    assert "is no site of this suite" in capsys.readouterr().err
    assert not (own / "elasticzo_fig7" / "figures" / "fig7.svg").exists()


def test_a_figure_that_was_never_drawn_is_told(results: Path, tmp_path: Path) -> None:
    own = shutil.copytree(results, tmp_path / "results")
    (own / "elasticzo_fig7" / "figures" / "fig7.svg").unlink()
    with pytest.raises(ReproError, match="`repro report elasticzo_fig7` draws it"):
        build(own, tmp_path, ROOT, tmp_path / "site")
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"results"}


@pytest.mark.parametrize("slug", index.SLUGS)
def test_the_command_of_each_run_asks_for_its_configuration(slug: str) -> None:
    artifact = index.load(slug)
    for run in current_runs(ROOT / "results", slug):
        record = read_run(run)[-1]
        repro, action, name, *rest = shlex.split(provenance.command(artifact, record))
        assert (repro, action, name) == ("repro", "run", slug)
        options = parse(RunOptions, "repro run", artifact, rest)
        asked = config_dict(options.config)
        assert record.profile in (options.profile, CUSTOM)
        assert {key: asked[key] for key in record.config} == record.config


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        ([None], "7 threads,"),
        ([{"threads": 1}, {"threads": 1}], "1 thread,"),
        ([{"threads": 2}, {"threads": 1}], "1 or 2 threads,"),
        ([{"engine": "torch"}, {"threads": 4}], "4 threads,"),
        ([{"engine": "torch"}], None),
    ],
)
def test_threads_are_those_that_trained_and_else_those_of_the_process(
    trained: list[dict[str, Any] | None], said: str | None, tmp_path: Path
) -> None:
    artifact = index.load("elasticzo_fig2")
    record = read_run(current_runs(ROOT / "results", artifact.slug)[0])[0]
    here = msgspec.structs.replace(record.environment, threads=7)
    metrics = [{} if one is None else {"trained": one} for one in trained]
    records = [msgspec.structs.replace(record, metrics=each, environment=here) for each in metrics]
    (run,) = provenance.runs(artifact, [write_run(tmp_path, records)], [])
    assert re.findall(r"[^,]* threads?,", run.machine) == ([f" {said}"] if said else [])


@pytest.mark.parametrize("slug", index.SLUGS)
def test_every_figure_has_a_caption_and_notebooks_show_it(slug: str) -> None:
    artifact = index.load(slug)
    captions = artifact.captions
    assert captions.keys() == artifact.figures.keys()
    cells = "\n".join(cell.source for cell in assemble(slug).cells)
    shown = re.findall(r'notebook_api\.figure\(artifact\.ARTIFACT, "(\w+)", records\)', cells)
    assert shown
    assert {*shown} <= captions.keys()


def test_code_and_sections_after_the_conclusion_are_folded() -> None:
    raw = {"output_type": "display_data", "data": {"text/plain": "42"}, "metadata": {}}
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "source": "# Title", "metadata": {}},
        {"cell_type": "code", "source": "answer()", "metadata": {}, "outputs": [raw]},
        {"cell_type": "markdown", "source": "## Conclusion\n\nIt holds.", "metadata": {}},
        {"cell_type": "markdown", "source": "## Points", "metadata": {formatting.FOLDED: True}},
        {"cell_type": "markdown", "source": "Text between.", "metadata": {}},
        {"cell_type": "markdown", "source": "## Later", "metadata": {}},
    ]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
    html = text.notebook(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    code, points = re.findall(r"<details.*?</details>", html, re.DOTALL)
    assert "answer" in code
    assert "42" not in code
    assert re.search(r"<summary><h2.*?>Points</h2></summary>.*Text between\.", points, re.DOTALL)
    assert "holds" not in code + points
    assert "Later" not in code + points


def test_a_number_and_its_unit_stay_on_one_line_but_code_can_be_copied() -> None:
    page = '<p title="5 %">97 ± 0.8 %, 5 sets <code>--budget 8 GB</code>: 8 GB <pre>1 s</pre></p>'
    kept = page.replace("97 ± 0.8 %", "97 ±\xa00.8\xa0%").replace(": 8 GB", ": 8\xa0GB")
    assert text.unbroken(page) == kept


def test_formulas_become_mathml_and_nothing_else_does() -> None:
    html = text.markdown(r"``a_b`` costs $x_1 < 3$:" + "\n\n" + r"$$M = \frac{a}{b} \tag{2}$$")
    assert "<code>a_b</code>" in html
    assert "<msub><mi>x</mi><mn>1</mn></msub><mo>&#x0003C;</mo>" in html
    assert 'display="block"' in html
    assert "<mfrac>" in html
    assert "tag" not in html
    assert "$" not in html


def test_the_rule_is_that_of_the_code_with_its_limits() -> None:
    rule = pages.rule().replace("\n", " ")
    assert "*close* within 5 %" in rule
    assert "half-width exceeds 3 percentage points" in rule
    assert all(f"**{name}**" in rule for name in VERDICTS)
    assert not re.search(r"``|[A-Z]{3,}_", rule)


@pytest.mark.parametrize(
    ("claim_id", "published", "difference"),
    [
        ("A2", "25 ×", "+0.5 %"),  # noqa: RUF001
        ("A8", "≥ 1 settings", "-100.0 %"),
        ("B-T1-mnist-fp32-full_zo", "89.80 %", "-0.57 points"),
        ("A10", "≥ 0 ×", "–"),  # noqa: RUF001
    ],
)
def test_numbers_in_words(
    claim_id: str, published: str, difference: str, ledger: list[ClaimRow]
) -> None:
    from dataclasses import replace

    (row,) = (row for row in ledger if row.id == claim_id)
    known = {"A2": 29.88, "A8": 0.0, "B-T1-mnist-fp32-full_zo": 89.23, "A10": None}
    row = replace(row, ours=known[claim_id], bootstrap=(0.5, 2.25))
    assert formatting.published(row) == published
    assert formatting.difference(row) == difference
    assert formatting.bootstrap(row) == "bootstrap 0.5 to 2.25"
