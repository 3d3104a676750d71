"""Run Python with the packages of the light installation alone: PyTorch, NumPy, their requirements.

The variable LIGHT_WITH names further distributions, as an extra brings them.
"""

import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import ClassVar


def required(*names: str) -> set[str]:
    """Return the distributions that ``names`` require, with themselves."""
    found: set[str] = set()
    rest = list(names)
    while rest:
        name = re.sub(r"[-_.]+", "-", rest.pop()).lower()
        if name in found:
            continue
        found.add(name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        rest += [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
    return found


class Present(PathFinder):
    """Finds the modules of the distributions that are allowed, as if there were no other."""

    absent: ClassVar[set[str]] = set()

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return nothing for a module of another distribution."""
        if fullname.partition(".")[0] in cls.absent:
            return None
        return super().find_spec(fullname, path, target)


allowed = required("torch", "numpy", *os.environ.get("LIGHT_WITH", "").split()) | {"zo-repro"}
Present.absent = {
    module
    for module, owners in importlib.metadata.packages_distributions().items()
    if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & allowed
}
sys.meta_path[sys.meta_path.index(PathFinder)] = Present
