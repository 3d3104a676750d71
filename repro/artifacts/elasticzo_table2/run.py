"""Pre-train, then fine-tune, for every cell of the table.

Kinds of results:

- ``run``: one fine-tuning run; the point names data set, angle, precision and method, the metrics
  are its curves, which begin with the pre-trained network, and its settings. The method ``none``
  is that network itself.
"""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results, tuned_cell
from repro.artifacts.elasticzo_table2 import Config


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each cell of the table."""
    rows = product(config.datasets, config.angles, config.precisions, config.methods, config.seeds)
    cells = [tuned_cell(config, *row) for row in rows]
    seen = set()
    for result in results(cells, context, engine=config.engine):
        yield result
        start = (result.point["dataset"], result.point["angle"], result.point["precision"])
        if (*start, result.seed) not in seen:
            seen.add((*start, result.seed))
            yield _without_fine_tuning(result)


def _without_fine_tuning(tuned: Result) -> Result:
    """Return the row of the pre-trained network: where the curves of fine-tuning begin."""
    before = {
        name: tuned.metrics[name][:1] for name in ("test_accuracy", "test_loss", "train_loss")
    }
    before["diverged"] = not before["test_accuracy"]  # in pre-training
    return Result(
        "run",
        {**tuned.point, "method": "none"},
        before | {"settings": tuned.metrics["settings"]["start"]},
        tuned.seed,
    )
