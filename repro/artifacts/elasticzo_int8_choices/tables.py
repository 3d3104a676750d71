"""The effects and the restores as tables."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.elasticzo_int8_choices.effects import Effect, effects
from repro.artifacts.elasticzo_int8_choices.restores import restored, shares, whole_share
from repro.claims.elasticzo import DATASETS, METHODS
from repro.claims.statistics import estimate
from repro.claims.trained import Cell
from repro.measurement.records import Record


def accuracies(records: Sequence[Record]) -> pd.DataFrame:
    """Return test accuracy by the default and by the other answer, and their difference.

    Accuracies are in per cent after the last epoch, differences in points with the 95 % interval
    over seeds where there are several; their lowest and highest are over the epochs.
    """
    return pd.DataFrame([_accuracy_row(effect) for effect in effects(records)])


def clipped_weights(records: Sequence[Record]) -> pd.DataFrame:
    """Return the shares of perturbed weights that met a clip, in per cent."""
    rows = []
    for answer, cell in restored(records):
        by_epoch = shares(cell)
        values = {
            "first epoch": by_epoch[0],
            "last epoch": by_epoch[-1],
            "all epochs": whole_share(cell),
        }
        rows.append(
            {
                **_of(cell),
                "restore": answer,
                **{f"{name} (%)": f"{share:.3f}" for name, share in values.items()},
            }
        )
    return pd.DataFrame(rows)


def summary(records: Sequence[Record]) -> str:
    """Return a sentence that names the differences with the same sign after every epoch."""
    found = effects(records)
    named = [
        f"{effect.choice.name} {effect.answer}, {_of(effect.default)['method']} on "
        f"{_of(effect.default)['data set']} ({effect.last.text('+')} points at the end)"
        for effect in found
        if min(effect.by_epoch) > 0 or max(effect.by_epoch) < 0
    ]
    sentence = "Differences that keep their sign over all epochs"
    if not named:
        return f"{sentence}: none of {len(found)}."
    return f"{sentence} ({len(named)} of {len(found)}): {'; '.join(named)}."


def _accuracy_row(effect: Effect) -> dict[str, str]:
    by_epoch = effect.by_epoch
    of = _of(effect.default)
    notes = (effect.default.caveat, effect.other.caveat)
    return {
        "data set": of["data set"],
        "choice": effect.choice.name,
        "method": of["method"],
        "default (%)": _last(effect.choice.default, effect.default),
        "other (%)": _last(effect.answer, effect.other),
        "difference (points)": effect.last.text("+"),
        "lowest, highest": f"{min(by_epoch):+.2f}, {max(by_epoch):+.2f}",
        "epochs": effect.default.epochs,
        "seeds": str(effect.last.n_seeds),
        "note": "; ".join(dict.fromkeys(note for note in notes if note)),
    }


def _last(answer: str, cell: Cell) -> str:
    return f"{answer} {estimate(list(cell.last.values())).mean:.2f}"


def _of(cell: Cell) -> dict[str, str]:
    point = cell.point
    return {"data set": DATASETS[str(point["dataset"])], "method": METHODS[str(point["method"])]}
