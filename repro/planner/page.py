"""The planner as one page for a browser: sliders, the same formula, no network requests."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from repro.core.names import ATTENTIONS
from repro.memory.setting import FORMATS, LOSSES, Setting
from repro.memory.training_method import TrainingMethod
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.families import family
from repro.planner.javascript import formula_script
from repro.planner.methods import unsupported_reason, warning
from repro.planner.models import Model
from repro.planner.paper import BYTES_PER_PARAMETER, LIVE_LAYERS
from repro.planner.table import NOT_COUNTED, short_name

WEB = Path(__file__).with_name("web")
"""The page's parts: markup, style, and the script that fills the tables."""

FIRST = "llama-3.2-3b"
"""The page's first model if none is given and its families include it."""
LLAMA = architecture(family("llama-2")[0].config)
"""Name of the model with the user's own sizes."""


def page(
    families: Sequence[str],
    methods: Sequence[TrainingMethod],
    setting: Setting,
    budget: float,
    model: Model | None = None,
) -> str:
    """Return the page as HTML, which opens with ``setting``, ``budget`` and the given model.

    Args:
        families: names in the table of families, to choose from.
        methods: the methods, one row each.
        setting: the training step; a context beyond the model's positions is cut to them.
        budget: memory in bytes.
        model: one more model to choose from; without it the page opens with ``FIRST``.

    Raises:
        UsageError: a family does not exist, or the formula does not cover the model.
    """
    named = [] if model is None else [_entry(model.name, "", architecture(model.config))]
    table = [
        _entry(member.name, name, architecture(member.config))
        for name in families
        for member in family(name)
    ]
    models = named + table
    names = [entry["name"] for entry in models]
    start = names.index(FIRST) if model is None and FIRST in names else 0
    context = min(setting.context, models[start]["sizes"]["positions"])
    data = {
        "defaults": asdict(LLAMA),
        "models": models,
        "methods": [_method(method, setting) for method in methods],
        "formats": FORMATS,
        "attentions": ATTENTIONS,
        "losses": LOSSES,
        "start": {
            "model": start,
            "budget": budget,
            "setting": asdict(replace(setting, context=context)),
        },
        "live_layers": LIVE_LAYERS,
        "paper_widths": BYTES_PER_PARAMETER,
        "not_counted": NOT_COUNTED,
    }
    text = _part("page.html")
    for name, content in {
        "style": _part("page.css"),
        "formula": _part("builtins.js") + formula_script(),
        "page": _part("page.js"),
        "data": json.dumps(data).replace("<", "\\u003c"),  # a name must not end the script
    }.items():
        text = text.replace("{{" + name + "}}", content)
    return text


def _entry(name: str, family_name: str, sizes: Architecture) -> dict[str, Any]:
    short = short_name(name, family_name) if family_name else name
    return {"name": name, "family": family_name, "short": short, "sizes": asdict(sizes)}


def _method(method: TrainingMethod, setting: Setting) -> dict[str, Any]:
    every = [replace(setting, format=name) for name in FORMATS]
    return {
        **asdict(method),
        "unsupported_reasons": {s.format: unsupported_reason(method, s) for s in every},
        "warnings": {s.format: warning(method, s) for s in every},
    }


def _part(name: str) -> str:
    return (WEB / name).read_text(encoding="utf-8")
