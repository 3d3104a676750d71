"""The planner as one page for a browser: sliders, the same formula, no network requests."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from repro.core.names import ATTENTIONS
from repro.memory.setting import ADAPTER_FORMATS, FORMATS, LOSSES, Setting, TrainingMethod
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
        setting: the training step; a context beyond the model's positions is cut to them, and a
            tail to its blocks.
        budget: memory in bytes.
        model: one more model to choose from; without it the page opens with ``FIRST``.

    Raises:
        UsageError: a family does not exist, or the formula does not cover the model.
    """
    entries = [] if model is None else [(model.name, "", model.name, model.config)]
    entries += [
        (member.name, name, short_name(member.name, name), member.config)
        for name in families
        for member in family(name)
    ]
    models: list[dict[str, Any]] = [
        {"name": name, "family": group, "short": short, "sizes": asdict(architecture(config))}
        for name, group, short, config in entries
    ]
    names = [entry["name"] for entry in models]
    start = names.index(FIRST) if model is None and FIRST in names else 0
    context = min(setting.context, models[start]["sizes"]["positions"])
    tail = min(setting.tail, models[start]["sizes"]["layers"])
    every = [replace(setting, format=name) for name in FORMATS]
    data = {
        "defaults": asdict(architecture(family("llama-2")[0].config)),
        "models": models,
        "methods": [
            asdict(method)
            | {"unsupported_reasons": {s.format: unsupported_reason(method, s) for s in every}}
            | {
                "warnings": {
                    adapters: {
                        s.format: warning(method, replace(s, adapters=adapters)) for s in every
                    }
                    for adapters in ADAPTER_FORMATS
                }
            }
            for method in methods
        ],
        "formats": FORMATS,
        "attentions": ATTENTIONS,
        "losses": LOSSES,
        "adapters": ADAPTER_FORMATS,
        "start": {
            "model": start,
            "budget": budget,
            "setting": asdict(replace(setting, context=context, tail=tail)),
        },
        "live_layers": LIVE_LAYERS,
        "paper_widths": BYTES_PER_PARAMETER,
        "not_counted": NOT_COUNTED,
    }
    files = ["page.html", "page.css", "builtins.js", "page.js"]
    parts = {name: (WEB / name).read_text(encoding="utf-8") for name in files}
    text = parts["page.html"]
    for name, content in {
        "style": parts["page.css"],
        "formula": parts["builtins.js"] + formula_script(),
        "page": parts["page.js"],
        # last, since a name in it may hold braces
        "data": json.dumps(data).replace("<", "\\u003c"),  # a name must not end the script
    }.items():
        text = text.replace("{{" + name + "}}", content)
    return text
