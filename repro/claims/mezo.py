"""The MeZO paper's quantitative claims (Katti et al. 2025, arXiv 2511.11362)."""

from dataclasses import replace
from functools import partial

from repro.claims.claim import Claim

_fig3 = partial(Claim, paper="mezo", artifact="mezo_fig3", unit="x", basis="analytic")

_A1 = _fig3(
    id="A1",
    section="1, 2.4",
    statement="For the same memory MeZO can train a model at least twice as large as BP",
    published=2,
    relation="at least",
    digits=2,
)
_A1_DEEP = replace(
    _A1, id="A1-deep", statement=f"{_A1.statement}, for decoders of 4 layers or more"
)
_A2 = _fig3(
    id="A2",
    section="2.4, Fig. 3 (top left)",
    statement="Without checkpointing MeZO saves up to 25x at a context of N = 32768",
    published=25,
)
_A3 = _fig3(
    id="A3",
    section="2.4, Fig. 3 (bottom left)",
    statement="With checkpointing MeZO saves about 5x at long context (N = 32768)",
    published=5,
)
_A4 = _fig3(
    id="A4",
    section="2.4, Fig. 3 (top centre)",
    statement="Without checkpointing the saving is only about 1.2x at few layers (L = 1)",
    published=1.2,
    digits=1,
)
_A5 = _fig3(
    id="A5",
    section="2.4, Fig. 3 (top centre)",
    statement="Without checkpointing the saving grows to 4.23x at L = 100",
    published=4.23,
    digits=2,
)
_A6 = _fig3(
    id="A6",
    section="2.4, Fig. 3 (bottom centre)",
    statement="With checkpointing the saving over L peaks at around 2.28x",
    published=2.28,
    digits=2,
)
_A7 = _fig3(
    id="A7",
    section="2.4, Fig. 3 (top right)",
    statement="Without checkpointing MeZO saves about 24x at a small hidden size (D = 512)",
    published=24,
)
_A8 = _fig3(
    id="A8",
    section="3, Fig. 4",
    statement="Some setting of b, B and N gives all three set-ups of Fig. 4 around 17 GB",
    published=1,
    unit="settings",
    relation="at least",
)


_ACCURACY = Claim(
    id="A9",
    paper="mezo",
    section="3, Fig. 4",
    artifact="mezo_fig4",
    statement="After about 2 hours MeZO reaches an accuracy of around 82 % on BoolQ",
    published=82,
    unit="%",
    basis="trained",
)
_ORDER = replace(
    _ACCURACY,
    id="A9-order",
    statement="At equal memory the larger model that MeZO can train ends at a higher accuracy",
    published=0,
    unit="points",
    relation="at least",
    judged_by=("quick", "hours", "gpu"),
)


CLAIMS: tuple[Claim, ...] = (
    _A1,
    _A1_DEEP,
    replace(_A1_DEEP, id="A1-simulated", basis="simulated"),
    replace(_A1_DEEP, id="A1-measured", basis="measured"),
    _A2,
    replace(_A2, id="A2-simulated", basis="simulated"),
    replace(
        _A2,
        id="A2-orders",
        section="2.4 (conclusion)",
        statement="At large context the saving is potentially several orders of magnitude (read "
        "here as 100x or more, at the L' = 1 of Fig. 3)",
        published=100,
        relation="at least",
    ),
    _A3,
    replace(_A3, id="A3-simulated", basis="simulated"),
    _A4,
    replace(_A4, id="A4-simulated", basis="simulated"),
    _A5,
    replace(
        _A5,
        id="A5-asymptote",
        statement="Without checkpointing the saving over L has an asymptote of 4.38x",
        published=4.38,
    ),
    replace(_A5, id="A5-simulated", basis="simulated"),
    _A6,
    replace(
        _A6,
        id="A6-L100",
        statement="With checkpointing the saving falls to 2.17x at L = 100",
        published=2.17,
    ),
    replace(
        _A6,
        id="A6-asymptote",
        statement="With checkpointing the saving over L has an asymptote of 2x",
        published=2.0,
        digits=0,
    ),
    replace(
        _A6,
        id="A6-simulated",
        basis="simulated",
        statement="With checkpointing the saving is 2.17x at L = 100",
        published=2.17,
    ),
    _A7,
    replace(
        _A7,
        id="A7-checkpointed",
        section="2.4, Fig. 3 (bottom right)",
        statement="With checkpointing MeZO saves about 5x at a small hidden size (D = 512)",
        published=5,
    ),
    replace(
        _A7,
        id="A7-asymptote",
        statement="With growing hidden size the saving converges to 2x",
        published=2,
    ),
    replace(_A7, id="A7-simulated", basis="simulated"),
    _A8,
    *(
        replace(
            _A8,
            id=f"A8-{name}",
            statement=f"{model} needs around 17 GB at b = 2, B = 8, N = 1024",
            published=17,
            unit="GB",
            relation="equals",
        )
        for name, model in (
            ("gpt2-medium", "GPT-2 medium trained by BP"),
            ("llama-7b", "Llama 2 7B trained by MeZO with L'/L = 0.41"),
            ("llama-13b", "Llama 2 13B trained by MeZO with L'/L = 0.15"),
        )
    ),
    replace(
        _A8,
        id="A8-measured",
        artifact="mezo_fig4",
        statement="All set-ups of Fig. 4 take around 17 GB: the measured peak farthest from it",
        published=17,
        unit="GB",
        relation="equals",
        basis="measured",
        judged_by=("paper",),
    ),
    _ACCURACY,
    replace(
        _ACCURACY,
        id="A9-bp",
        statement="After about 2 hours BP remains below 75 % on BoolQ",
        published=75,
        relation="at most",
    ),
    _ORDER,
    replace(
        _ORDER,
        id="A10",
        statement="MeZO converges more slowly than BP in wall-clock time: how much longer it takes "
        "to half of BP's gain in accuracy",
        unit="s",
        judged_by=(*_ORDER.judged_by, "paper"),
    ),
)
