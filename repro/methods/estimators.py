"""Estimators of the directional derivative: the weights at which an estimate takes its losses."""

from typing import Literal

Estimator = Literal["two-sided", "one-sided"]

OFFSETS: dict[Estimator, tuple[int, int]] = {"two-sided": (1, -1), "one-sided": (1, 0)}
"""Offsets from theta, in units of eps z, of an estimate's two losses, in the order of the passes.

Training, replay and the projected gradient g = (first loss - last loss) / ((first - last) eps) all
use them. ``two-sided`` is SPSA (MeZO, Malladi et al. 2023, definition 1), whose error has order eps
squared. ``one-sided`` (FZOO, arXiv 2506.09034) takes the loss at theta once a step, for any number
of directions, and its error has order eps.
"""
