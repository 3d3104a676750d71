"""ElasticZO-INT8: accuracy by other answers to questions that the papers leave open.

Against the defaults of the tables one answer is changed at a time: how a clipped perturbation is
taken back, NITI's shift policy, the pass that feeds the tail, the rule for the gradient's sign.

Deviations from the paper:

1. The paper has no such experiment. No published claim is answered here.
2. Answers are changed one at a time: what two of them do together is not seen.
3. r_max was searched for with the defaults (artifact ``elasticzo_search``) and kept: another
   answer may do better with an r_max of its own. Batch size and b_ZO are those of the tables.
4. Two runs of one seed begin with the same weights and meet the same images and perturbations in
   the same order, but part at the first weight that differs. From there on they differ as two seeds
   do, and a difference from one seed alone may be no more than that. Nor does a short run speak
   for one of 100 epochs.
5. Of the rules for the sign, ``float`` is the paper's INT8 and ``integer`` its INT8*; ``exact``,
   the integer rule without the floor of its logarithm, is ours.
6. All that is the same on both sides is as in Table 1; ``docs/integer.md`` lists every rule.
"""

from dataclasses import dataclass

from repro.artifacts.base import Artifact
from repro.artifacts.images import EngineRuns


@dataclass(frozen=True)
class Config(EngineRuns):
    """Which runs are made, and how long they are."""

    datasets: tuple[str, ...] = ("mnist",)
    """Sets of images: mnist, fashion_mnist."""


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=6)
SMOKE = Config(seeds=(0,), epochs=1, image_items=512)

ARTIFACT = Artifact(
    slug="elasticzo_int8_choices",
    paper="elasticzo",
    title="ElasticZO in INT8: accuracy by our answers to what the papers leave open",
    claims=(),
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    scope=("datasets", "seeds"),
    trains_cells=True,
)
