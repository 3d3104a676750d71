"""ElasticZO paper, section 5.2: Full ZO in INT8 with a fixed sparsity, and with the schedule.

Deviations from the paper:

1. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items with the schedule (artifact ``elasticzo_search``), and is the same in both arms.
2. The paper gives p_zero = 0.33 for the fixed arm; its other settings are taken to be those of
   Table 1.
3. The integer rules are those of NITI's second version; see ``docs/integer.md`` for all that the
   papers leave open.
"""

from dataclasses import dataclass

from repro.artifacts.base import Artifact
from repro.artifacts.images import EngineRuns
from repro.claims.index import of_artifact
from repro.integer.limits import check_p_zero


@dataclass(frozen=True)
class Config(EngineRuns):
    """Which runs are made, and how long they are."""

    p_zero: float = 0.33
    """The fixed sparsity (the paper's 0.33)."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        check_p_zero(self.p_zero)


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=10)
SMOKE = Config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)

ARTIFACT = Artifact(
    slug="elasticzo_sparsity",
    paper="elasticzo",
    title="ElasticZO: Full ZO in INT8 with fixed and with rising sparsity",
    claims=tuple(claim.id for claim in of_artifact("elasticzo_sparsity")),
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    scope=("datasets", "seeds"),
    trains_cells=True,
)
