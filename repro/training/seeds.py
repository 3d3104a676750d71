"""Derive independent seeds for the random parts of a run from its one seed."""

import numpy as np

INITIAL, ORDER, NOISE, AUGMENTATION, ADAPTERS = range(5)
"""The uses of a seed: initial weights, order of items, perturbations, augmentation, adapters."""


def derived_seed(seed: int, use: int) -> int:
    """Return an independent seed for one ``use`` of a run's seed, below 2**32."""
    return int(np.random.SeedSequence([seed, use]).generate_state(1)[0])
