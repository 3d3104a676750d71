"""ElasticZO paper, sections 4.3 and 5.2: how often the integer sign of the gradient is right.

At every step of training in INT8* the two losses are also compared by the floating-point
cross-entropy of the same logits, and by the paper's powers of two without the floor of its
logarithm, as whole numbers of any length. So an error has two parts: what powers of two cost, and
what the floor costs.

Deviations from the paper:

1. The paper says that about 95 % of the signs are right, and not over which steps, method or data
   set. Here it is the share over all steps of a run, for each method and set.
2. A sign is right if it is that of the floating-point loss, zeros included: an integer comparison
   that finds no difference where there is one counts as wrong.
3. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items (artifact ``elasticzo_search``).
4. The integer rules are those of NITI's second version; see ``docs/integer.md`` for all that the
   papers leave open.
"""

from dataclasses import dataclass

from repro.artifacts.base import Artifact
from repro.artifacts.images import EngineRuns
from repro.claims.index import of_artifact
from repro.core.names import ZEROTH_ORDER, MethodName
from repro.core.validation import require_names


@dataclass(frozen=True)
class Config(EngineRuns):
    """Which runs are watched, and how long they are."""

    methods: tuple[MethodName, ...] = ZEROTH_ORDER
    """Methods with a zeroth-order part."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_names("methods", self.methods, ZEROTH_ORDER)


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=6)
SMOKE = Config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)

ARTIFACT = Artifact(
    slug="elasticzo_int8_sign",
    paper="elasticzo",
    title="ElasticZO: how often the integer sign of the gradient is right",
    claims=tuple(claim.id for claim in of_artifact("elasticzo_int8_sign")),
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    scope=("datasets", "methods", "seeds"),
    trains_cells=True,
)
