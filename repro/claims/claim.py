"""A published statement, and the bases on which we have a value for it."""

from dataclasses import dataclass
from typing import Literal

Basis = Literal["analytic", "simulated", "measured", "engine", "timed", "trained"]
"""Where our value comes from: the paper's own equations, counted tensors, an allocator under
PyTorch or under the compiled engine, a clock on another machine, or training, of which a verdict
speaks by the spread over seeds."""

Relation = Literal["equals", "at least", "at most"]
SIGNS: dict[str, str] = {"equals": "", "at least": "≥ ", "at most": "≤ "}
"""Signs printed before a published number, by its relation."""


@dataclass(frozen=True)
class Claim:
    """One published number."""

    id: str
    """Stable identifier, as in ``A2``; a suffix names a second number or another basis."""
    paper: str
    """``mezo`` or ``elasticzo``."""
    section: str
    """Section, figure or table of the paper."""
    artifact: str
    """Slug of the artifact that gives our value."""
    statement: str
    """The claim in our words."""
    published: float
    """The paper's number; where ``correction`` names a slip in it, the number without that slip."""
    unit: str
    """Unit of ``published`` and of our value: ``x`` for a ratio, ``GB`` for 1e9 bytes, ``MiB`` and
    ``KiB`` for 2**20 and 2**10, ``%`` for per cent, ``points`` for percentage points between
    accuracies, ``s`` for seconds, ``nats`` for losses, ``billion`` for parameters."""
    basis: Basis
    digits: int = 0
    """Decimals the paper prints, to which ours is rounded before it is held against published."""
    relation: Relation = "equals"
    quote: str = ""
    """The paper's own words in ASCII, with [...] for words left out or lost in our copy; of a
    number in a table, its row and column."""
    printed: float | None = None
    """The number as the paper prints it, where ``published`` is another."""
    correction: str = ""
    """The slip in the paper that ``published`` is corrected for."""
    remark: str = ""
    """Context for the reader, independent of our value."""
    same_as: str = ""
    """Id of the statement, if this is its value on another basis; empty for a statement."""
    is_stated: bool = True
    """Whether the paper says so; else it is our reading of its numbers."""
    unknown: tuple[str, ...] = ()
    """Settings that decide the result and are missing from the paper, or from our copy of it."""
    judged_by: tuple[str, ...] = ()
    """Profiles whose records give a verdict; where none is named, every profile, and of what was
    trained the published setting alone."""
