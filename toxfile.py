"""The tox environments ``repro-<slug>``: one for each artifact of the registry.

tox runs where the suite is not installed, so the names are read from the registry's source.
"""

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tox.config.loader.memory import MemoryLoader
from tox.config.types import Command
from tox.plugin import impl

REGISTRY = Path(__file__).parent / "repro" / "artifacts" / "index.py"
SHORT = {"fig3": "mezo_fig3", "fig4": "mezo_fig4"}
"""Short names of the MeZO paper's figures."""


def artifacts() -> list[str]:
    """Return the names that the registry imports from ``repro.artifacts``."""
    return [
        name.name
        for node in ast.parse(REGISTRY.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module == "repro.artifacts"
        for name in node.names
    ]


@impl
def tox_extend_envs() -> Iterable[str]:
    """Return the names of the environments."""
    return [f"repro-{name}" for name in (*SHORT, *artifacts())]


@impl
def tox_add_env_config(env_conf: Any, state: Any) -> None:  # noqa: ANN401 - tox's own
    """Give each of them its command: run the artifact, draw it and make its notebook."""
    name = env_conf.name.removeprefix("repro-")
    if name == env_conf.name:
        return
    program = str(state.conf.work_dir / "suite" / "bin" / "repro")
    arguments = state.conf.pos_args(None) or ()  # they go to `repro run`
    command = Command([program, "run", SHORT.get(name, name), "--report", *arguments])
    env_conf.loaders.insert(0, MemoryLoader(commands=[command], description=f"run {name}"))
