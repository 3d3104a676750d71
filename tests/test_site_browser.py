"""The site of the committed records in a browser: no request, no error, on a phone and on paper."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from repro.claims.verdict import CLOSE, INCONSISTENT
from repro.report.claims_table import claim_rows
from repro.site.build import build

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = 120_000  # for a machine that does much else
PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, NAMES)), own if Path(own).is_file() else None)
        if found is None:
            pytest.skip(f"no browser: none of {', '.join(NAMES)}, and Playwright has none")
        arguments = ["--no-sandbox", "--disable-gpu"]
        opened = playwright.chromium.launch(
            executable_path=found, args=arguments, timeout=TIMEOUT_MS
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "site"
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("REPRO_CACHE_DIR")  # the gate's, in which the site was just built
        patch.setenv("REPRO_CACHE_DIR", kept or str(tmp_path_factory.mktemp("cache")))
        build(ROOT / "results", ROOT / "notebooks", ROOT, target)
    return target


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test on a request, on a message of the console, on an error."""
    wrong: list[str] = []
    opened = browser.new_page(viewport=PHONE)
    opened.set_default_timeout(TIMEOUT_MS)
    opened.on("console", lambda message: wrong.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    opened.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:"))
            else wrong.append(f"request: {request.url}")
        ),
    )
    opened.on(
        "requestfailed",
        lambda request: (
            None
            if request.failure == "net::ERR_ABORTED"  # the test went on to another page
            else wrong.append(f"failed: {request.url[:200]} ({request.failure})")
        ),
    )
    yield opened
    opened.close()
    assert not wrong


def shown(page: Page) -> list[str]:
    rows: list[str] = page.eval_on_selector_all(
        "#claims tbody tr", "rows => rows.filter(r => r.offsetParent).map(r => r.dataset.verdict)"
    )
    return rows


def test_every_page_fits_a_phone_shows_its_images_and_leads_on(site: Path, page: Page) -> None:
    places: dict[str, set[str]] = {}
    links: dict[str, set[str]] = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        images = page.eval_on_selector_all(
            "img", "images => images.map(i => [i.complete && i.naturalWidth > 0, i.alt])"
        )
        assert all(loaded and alt for loaded, alt in images), path
        assert page.locator("h1").count() == 1, path
        ledger = page.eval_on_selector_all(
            ".ledger td", "all => all.map(cell => cell.getBoundingClientRect().right)"
        )
        assert max(ledger, default=0) <= PHONE["width"], path
        places[page.url] = set(page.eval_on_selector_all("[id]", "all => all.map(e => e.id)"))
        links[page.url] = set(page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"))
    for here, hrefs in links.items():
        for href in hrefs:
            goal, _, place = href.partition("#")
            if goal.startswith("https:") and "/docs/" in here:
                continue  # of a document: to what is no part of the clone
            assert Path(goal.removeprefix("file://")).is_file(), f"{here}: {href}"
            if place and "=" not in place:  # that asks the filter
                assert place in places[goal], f"{here}: {href}"


def test_the_filter(site: Path, page: Page) -> None:
    rows = claim_rows(ROOT / "results")
    index = (site / "index.html").as_uri()
    page.set_viewport_size(DESK)
    page.goto(index)
    assert len(shown(page)) == len(rows)
    page.locator("input[name=q]").focus()
    page.keyboard.type("MNIST  table")
    found = shown(page)
    assert 0 < len(found) < len(rows)
    assert page.locator("#count").inner_text() == f"{len(found)} of {len(rows)} statements."
    assert page.locator("#count").get_attribute("aria-live") == "polite"
    page.get_by_role("checkbox", name=CLOSE, exact=True).focus()
    page.keyboard.press("Space")
    assert set(shown(page)) == {CLOSE}
    assert page.url == f"{index}#q=MNIST++table&verdict={CLOSE}"
    both = shown(page)
    page.reload()
    assert shown(page) == both
    assert page.locator("input[name=q]").input_value() == "MNIST  table"
    page.get_by_role("button", name="Clear the filter").click()
    page.wait_for_url(index)
    assert len(shown(page)) == len(rows)
    page.locator("input[name=q]").fill("no such claim")
    assert page.locator("#count").inner_text() == f"None of {len(rows)} statements matches."
    assert shown(page) == []


def test_a_filter_can_be_linked(site: Path, page: Page) -> None:
    rows = claim_rows(ROOT / "results")
    page.goto((site / "index.html").as_uri())
    verdict = INCONSISTENT
    page.get_by_role("link", name=re.compile(f"^[0-9]+ {verdict}$")).click()
    found = [row for row in rows if row.verdict == verdict]
    expect(page.locator("#count")).to_have_text(f"{len(found)} of {len(rows)} statements.")
    assert shown(page) == [verdict] * len(found)
    assert page.evaluate("document.getElementById('all').getBoundingClientRect().top") < 60
    page.goto(f"{(site / 'index.html').as_uri()}#artifact=elasticzo_fig6&paper=nobody")
    page.reload()
    assert len(shown(page)) == sum(row.artifact == "elasticzo_fig6" for row in rows)
    page.wait_for_function("document.getElementById('all').getBoundingClientRect().top < 60")
    page.locator("#claims tbody tr:not([hidden]) a").first.click()
    page.wait_for_url("**/artifacts/elasticzo_fig6.html#*")
    assert page.locator("tr:target").count() == 1


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
def test_counts_and_first_answers_are_above_the_fold(
    size: ViewportSize, site: Path, page: Page
) -> None:
    page.set_viewport_size(size)
    page.goto((site / "index.html").as_uri())
    for seen in (page.locator(".counts li").last, page.locator(".headlines tbody tr").nth(3)):
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size["height"]


def test_a_phones_index_has_at_most_twelve_screens(site: Path, page: Page) -> None:
    rows = claim_rows(ROOT / "results")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollHeight") <= 12 * 844
    assert 10 <= len(shown(page)) < len(rows)
    page.get_by_role("button", name=re.compile("^Show the other")).click()
    assert len(shown(page)) == len(rows)


def test_the_search_finds_documents_and_statements(site: Path, page: Page) -> None:
    page.goto((site / "docs" / "plan.html").as_uri())
    box = page.get_by_role("searchbox", name="Search statements and documents")
    box.fill("glossary projected gradient")
    page.locator("#results a").first.click()
    page.wait_for_url("**/docs/glossary.html#*")
    box.fill("B-sign")
    box.press("Enter")
    page.wait_for_url("**/artifacts/elasticzo_int8_sign.html#B-sign")
    assert page.locator("tr:target").count() == 1
    box.fill("test accuracy MNIST")
    page.get_by_role("link", name="All matching statements").click()
    page.wait_for_url("**/index.html#q=*")
    assert page.locator("input[name=q]").input_value() == "test accuracy MNIST"
    box.fill("elasticzo_table1")  # in no row's text
    page.get_by_role("link", name="All matching statements").click()
    own = page.locator("#claims tbody tr[data-artifact=elasticzo_table1]").count()
    page.get_by_text(f"{own} of ").wait_for()


def test_a_number_leads_to_the_record_behind_it(site: Path, page: Page) -> None:
    page.goto((site / "artifacts" / "elasticzo_table1.html").as_uri())
    row = page.locator("#B-T1-mnist-fp32-cls1")
    row.get_by_role("link").first.click()
    record = page.locator("tr:target")
    record.wait_for(state="visible")  # in details that were closed
    assert "dataset mnist, precision fp32, method cls1" in record.inner_text()


def test_without_scripts_the_table_is_whole(site: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto((site / "index.html").as_uri())
    assert page.locator("#claims tbody tr:visible").count() == len(claim_rows(ROOT / "results"))
    assert not page.locator("#filter").is_visible()
    context.close()


def test_dark_light_and_paper(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        seen[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert seen == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == seen["light"]
    assert not page.locator("nav").is_visible()
    assert not page.locator("#filter").is_visible()
    assert page.locator("#claims thead").is_visible()


def test_the_planners_sliders_answer(site: Path, page: Page) -> None:
    page.goto((site / "planner.html").as_uri())
    summary = page.locator("#summary")
    before = summary.inner_text()
    slider = page.get_by_role("slider", name="Budget")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator("#budget").input_value() == "0.1"
    assert summary.inner_text() != before
    assert "fit 100 MB" in summary.inner_text()
    for name in ("Budget", "Context", "Batch"):
        slider = page.get_by_role("slider", name=name)
        slider.focus()
        page.keyboard.press("Home")
        first = float(slider.input_value())
        for _ in range(30):
            page.keyboard.press("ArrowRight")
        assert float(slider.input_value()) == first + 30
    assert float(page.locator("#budget").input_value()) > 0.1
    page.get_by_role("searchbox").fill("A10")
    assert "converges more slowly" in page.locator("#results").inner_text()
    page.get_by_role("link", name="Results").click()
    page.wait_for_url("**/index.html")


KINDS = (
    "index.html", "method.html", "planner.html", "artifacts/elasticzo_table1.html",
    "notebooks/mezo_fig3.html", "docs/memory.html", "docs/api-methods.html",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_every_kind_of_page_is_accessible(
    browser: Browser, site: Path, name: str, scheme: Literal["light", "dark"], size: ViewportSize
) -> None:
    """By the rules of axe-core: contrast, names, order of headings, and the like."""
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto((site / name).as_uri())
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert len(found.response["passes"]) > 20
