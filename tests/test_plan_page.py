"""The planner's page: its JavaScript against ``repro.planner``, and what a browser makes of it."""

import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from repro.cli import main
from repro.core.units import format_bytes
from repro.memory.setting import ADAPTER_FORMATS, FORMATS, Setting, TrainingMethod
from repro.planner.architecture import Architecture
from repro.planner.choices import choose
from repro.planner.configurations import architecture
from repro.planner.families import FAMILIES, find, members
from repro.planner.formula import estimate, largest_batch, longest_context, weight_bytes
from repro.planner.methods import TRAINING_METHODS
from repro.planner.models import Model, named
from repro.planner.page import FIRST, page
from repro.planner.paper import BYTES_PER_PARAMETER, paper_bytes
from repro.planner.table import short_name

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
NODE = shutil.which("node")
SETTING = Setting()
BUDGET = 16e9

EVALUATE = """
JSON.stringify(CASES.map(({ sizes, method, given, budget, b }) => {
  const a = Object.assign(new Architecture(), sizes), s = Object.assign(new Setting(), given);
  const peak = estimate(a, method, s);
  return {
    ...peak, total: peak.total, parameters: a.parameters, stored: weight_bytes(a, s),
    longest: longest_context(a, method, s, budget), largest: largest_batch(a, method, s, budget),
    paper: paperBytes(a, method, s, b, 1),
  };
}))
"""


def made(model: Model | None = None) -> str:
    return page(list(FAMILIES), list(TRAINING_METHODS.values()), SETTING, BUDGET, model)


def script(text: str, name: str) -> str:
    found = re.search(rf'<script id="{name}"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return found[1]


def browsed(path: Path) -> str:
    """The document as a browser leaves it."""
    if BROWSER is None:
        pytest.skip("no Chromium on the PATH")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def evaluated(source: str, expression: str, folder: Path) -> Any:
    """What ``expression`` is after ``source``, in Node.js or else in a browser."""
    if NODE is not None:
        code = f"{source}\nprocess.stdout.write({expression.strip()});"
        done = subprocess.run(
            [NODE, "-"], input=code, check=True, capture_output=True, text=True, timeout=120
        )
        return json.loads(done.stdout)
    if BROWSER is None:
        pytest.skip("neither Node.js nor Chromium on the PATH")
    path = folder / "evaluate.html"
    path.write_text(
        f"<pre></pre><script>{source}\n"
        f"document.querySelector('pre').textContent = {expression.strip()};</script>"
    )
    found = re.search("<pre>(.*?)</pre>", browsed(path), re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1]))


def a_setting(draw: random.Random) -> Setting:
    return Setting(
        context=round(2 ** draw.uniform(0, 15)),
        batch=round(2 ** draw.uniform(0, 8)),
        format=draw.choice(FORMATS),
        attention=draw.choice(["sdpa", "eager"]),
        loss=draw.choice(["last", "all"]),
        rank=draw.randint(1, 64),
        adapters=draw.choice(ADAPTER_FORMATS),
        tail=draw.randint(0, 4),
    )


def an_architecture(draw: random.Random) -> Architecture:
    """Of any sizes, with any of the differences between model types."""
    flags = (
        "tied", "gated", "rotary", "joined_rotation", "fused_qkv", "split_copies", "fused_gate",
        "parallel", "qkv_bias", "output_bias", "feed_forward_bias", "head_bias", "float32_softmax",
        "eager_only", "capped",
    )  # fmt: skip
    kv_heads, layers = draw.randint(1, 8), draw.randint(1, 40)
    return Architecture(
        model_type="any",
        layers=layers,
        hidden=draw.randint(1, 4096),
        heads=kv_heads * draw.randint(1, 8),
        kv_heads=kv_heads,
        head_size=draw.choice([32, 64, 128]),
        feed_forward=draw.randint(1, 16384),
        vocabulary=draw.randint(1, 300_000),
        positions=draw.randint(1, 100_000),
        activation=draw.choice(["fused", "relu", "composed"]),
        norm=draw.choice(["rms", "rms32", "layer"]),
        norms=draw.randint(1, 4),
        query_key_norm=draw.choice(["none", "head", "wide"]),
        position_rows=draw.choice([0, 1024]),
        masked=tuple(draw.random() < 0.5 for _ in range(draw.choice([0, layers]))),
        window=draw.choice([0, 512]),
        held=draw.randint(0, 2),
        masks=draw.randint(1, 2),
        score_rows=draw.randint(1, 4),
        **{name: draw.random() < 0.5 for name in flags},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("rounds", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_the_pages_formula_is_that_of_python(tmp_path: Path, rounds: int) -> None:
    draw = random.Random(rounds)
    architectures = [architecture(member.config) for member in members()]
    architectures += [an_architecture(draw) for _ in range(150)]
    cases: list[tuple[Architecture, TrainingMethod, Setting, float]] = [
        (
            a,
            draw.choice(list(TRAINING_METHODS.values())),
            a_setting(draw),
            10 ** draw.uniform(8, 12),
        )
        for a in architectures * rounds
    ]
    given = [
        {
            "sizes": asdict(a),
            "method": asdict(method),
            "given": asdict(s),
            "budget": budget,
            "b": BYTES_PER_PARAMETER[s.format],
        }
        for a, method, s, budget in cases
    ]
    by_the_paper = re.search(r"^function paperBytes.*?^}", script(made(), "page"), re.M | re.S)
    assert by_the_paper is not None
    source = f"{script(made(), 'formula')}\n{by_the_paper[0]}\nconst CASES = {json.dumps(given)};"
    found = evaluated(source, EVALUATE, tmp_path)
    assert len(found) == len(cases)
    for (a, method, s, budget), ours in zip(cases, found, strict=True):
        peak = estimate(a, method, s)
        assert ours.pop("moment") == peak.moment
        printed = paper_bytes(a, method, s)
        assert ours.pop("paper") == (printed and pytest.approx(printed, rel=1e-12))
        assert ours == pytest.approx(
            {
                **{name: value for name, value in asdict(peak).items() if name != "moment"},
                "total": peak.total,
                "parameters": a.parameters,
                "stored": weight_bytes(a, s),
                "longest": longest_context(a, method, s, budget),
                "largest": largest_batch(a, method, s, budget),
            },
            rel=1e-12,
        )


@pytest.mark.parametrize("tail", [0, 1, 20])
def test_the_pages_largest_models_are_those_of_the_command(tmp_path: Path, tail: int) -> None:
    setting, budget = replace(SETTING, tail=tail), 2e9
    page_script = script(made(), "page")
    found = re.search(r"^function largestModel.*?^}", page_script, re.MULTILINE | re.DOTALL)
    assert found is not None
    source = f"{script(made(), 'formula')}\n{found[0]}\nconst DATA = {script(made(), 'data')};"
    expression = f"""
JSON.stringify(DATA.methods.map((method) => {list(FAMILIES)}.map((family) => {{
  const s = Object.assign(new Setting(), {json.dumps(asdict(setting))});
  const models = DATA.models.filter((model) => model.family === family).map(
    (model) => ({{ ...model, sizes: Object.assign(new Architecture(), model.sizes) }}));
  const largest = largestModel(models, method, s, {budget});
  return largest && largest.name;
}})))"""
    methods = list(TRAINING_METHODS.values())
    chosen = choose(list(FAMILIES), methods, setting, budget, shorten=True)
    by_pair = {(choice.method.slug, choice.family): choice.model for choice in chosen}
    ours = [[by_pair.get((method.slug, family)) for family in FAMILIES] for method in methods]
    assert evaluated(source, expression, tmp_path) == ours


def test_the_page_has_everything_in_it() -> None:
    text = made()
    assert not re.search(r"https?:|//\w|url\(|@import|{{\w", text)
    assert not re.search(r"<(link|img|iframe)[^>]*(src|href)=\"(?!data:)", text)
    assert "default-src 'none'" in text


def test_the_page_says_what_python_says_of_methods() -> None:
    data = json.loads(script(made(), "data"))
    by_slug = {method["slug"]: method for method in data["methods"]}
    assert list(by_slug) == list(TRAINING_METHODS)
    assert "rounds to zero" in by_slug["mezo"]["unsupported_reasons"]["4bit"]
    assert by_slug["mezo"]["unsupported_reasons"]["bfloat16"] is None
    assert "Adam's eps" in by_slug["bp-adam"]["warnings"]["float32"]["float16"]
    assert by_slug["lora"]["warnings"]["float32"]["float16"] is None
    assert "Adam's eps" in by_slug["lora"]["warnings"]["activations"]["float16"]
    sizes = {m.name: asdict(architecture(m.config)) for m in members()}
    assert {m["name"]: m["sizes"] for m in data["models"]} == json.loads(json.dumps(sizes))


def test_the_page_opens_with_its_first_model() -> None:
    data = json.loads(script(made(), "data"))
    assert data["models"][data["start"]["model"]]["name"] == FIRST
    assert data["start"]["setting"]["context"] == 2048


def test_a_models_name_stays_a_name() -> None:
    config = find("gpt2").config  # type: ignore[union-attr]
    text = made(Model("</script><b>", "a file", config))
    assert text.count("</script>") == 3
    data = json.loads(script(text, "data"))
    assert data["models"][0]["name"] == "</script><b>"
    assert data["start"]["setting"]["context"] == 1024  # as many as it has positions


def test_command_writes_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "new" / "plan.html"
    arguments = ["plan", "--budget", "8GiB", "--html", str(path)]
    assert main([*arguments, "--family", "llama-3", "--batch", "4", "--method", "mezo"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    data = json.loads(script(path.read_text(), "data"))
    assert {model["family"] for model in data["models"]} == {"llama-3"}
    assert data["start"]["budget"] == 2**33
    assert data["start"]["setting"]["batch"] == 4
    assert [method["slug"] for method in data["methods"]] == ["mezo"]
    for other in ("--json", "--simulate"):
        assert main([*arguments, other]) == 2
        assert "--html: the page computes by the formula" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "4bit"])
def test_a_browser_shows_what_the_command_prints(dtype: Any, tmp_path: Path) -> None:
    setting = Setting(format=dtype)
    path = tmp_path / "plan.html"
    model = find("llama-2-7b")
    path.write_text(page(list(FAMILIES), list(TRAINING_METHODS.values()), setting, BUDGET, model))
    document = browsed(path)
    tables = re.findall(r"<tbody>(.*?)</tbody>", document, re.DOTALL)
    methods, families = [re.split("</?tr[^>]*>", table)[1::2] for table in tables]  # rows
    assert len(methods) == len(TRAINING_METHODS)
    if dtype == "bfloat16":  # as README's example has it
        last = [re.findall(r"<td[^>]*>(.*?)</td>", row)[-1] for row in methods]
        assert last == ["57.4 GB", "-", "32.2 GB", "-", "-", "-", "-", "14.4 GB", "-"]
    chosen = choose(list(FAMILIES), list(TRAINING_METHODS.values()), setting, BUDGET, shorten=True)
    for row in families:
        name, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        models = [choice.model for choice in chosen if choice.family == name]
        assert cells == ["-" if model is None else short_name(model, name) for model in models]


MOVE = """<script>
const move = (id, value) => {
  byId(id).value = value;
  byId(id).dispatchEvent(new Event("input", { bubbles: true }));
  return ["budget", "context", "batch"].map((name) => byId(name).valueAsNumber);
};
const told = [1.125e9, 112.5e6, 113.5e6, 999.6, 7.009e12, 0, 1e18].map(formatBytes);
move("tail", 30);
move("model", String(DATA.models.findIndex((model) => model.sizes.layers === 6)));
const tail = [byId("tail").valueAsNumber, byId("methods").tBodies[0].rows.length];
move("model", DATA.start.model);
move("tail", 1);
const seen = [move("budget-slider", 1000), move("context-slider", 1000), move("batch-slider", 0),
  move("context-slider", 0), move("context", 1e9)];
move("model", "own");
const own = [chosenArchitecture().parameters];
move("layers", 1);
own.push(chosenArchitecture().parameters);
move("kv_heads", 5);
own.push(byId("summary").textContent, byId("methods").tBodies[0].rows.length);
document.body.append(element("pre", {}, JSON.stringify([seen, own, told, tail])));
</script></body>"""


@pytest.mark.slow
def test_controls_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    path.write_text(made(named("llama-2-7b")).replace("</body>", MOVE))
    found = re.search("<pre>(.*?)</pre>", browsed(path), re.DOTALL)
    assert found is not None
    seen, own, told, tail = json.loads(unescape(found[1]))
    counts = (1.125e9, 112.5e6, 113.5e6, 999.6, 7.009e12, 0, 1e18)
    assert told == [format_bytes(count) for count in counts]
    assert tail == [6, len(TRAINING_METHODS)]
    assert seen == [
        [1000, 2048, 1],
        [1000, 4096, 1],
        [1000, 4096, 1],
        [1000, 1, 1],
        [1000, 4096, 1],
    ]
    block = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    assert own == [
        6_738_415_616,
        block + 2 * 32000 * 4096 + 4096,
        "5 key/value heads do not divide 32 heads.",
        0,
    ]
