"""The MeZO paper's quantitative claims (Katti et al. 2025, arXiv 2511.11362)."""

from dataclasses import replace
from functools import partial

from repro.claims.claim import Claim

_fig3 = partial(Claim, paper="mezo", artifact="mezo_fig3", unit="x", basis="analytic")

_A1 = _fig3(
    id="A1",
    section="1, 2.4",
    statement="In the same memory MeZO trains a model at least twice as large as BP does",
    quote="for the same memory budget, we can fine-tune a model that is at least 2x larger",
    published=2,
    relation="at least",
    digits=2,
)
_A2 = _fig3(
    id="A2",
    section="2.4, Fig. 3 (top left)",
    statement="Without checkpointing MeZO saves up to 25x at a context of N = 32768",
    quote="range from 2x at moderate contexts to up to 25x for N=32768",
    published=25,
)
_A2_ORDERS = replace(
    _A2,
    id="A2-orders",
    section="2.4 (conclusion)",
    statement="At a large context MeZO fits a model several orders of magnitude larger than BP "
    "does (read as 100x or more, for Llama 2 7B at N = 32768)",
    quote="with potentially several orders-of-magnitude larger savings for large contexts",
    published=100,
    relation="at least",
    is_stated=False,
    unknown=("with or without checkpointing",),
)
_A3 = _fig3(
    id="A3",
    section="2.4, Fig. 3 (bottom left)",
    statement="With checkpointing MeZO saves about 5x at long contexts",
    quote="the advantage of MeZO over BP reduces to approximately 5x for long contexts",
    published=5,
)
_A4 = _fig3(
    id="A4",
    section="2.4, Fig. 3 (top centre)",
    statement="Without checkpointing the saving is only about 1.2x at few layers (L = 1)",
    quote="the gain afforded by BP is smaller, around 1.2x, when L is small",
    remark="the saving is MeZO's; the sentence names BP by mistake",
    published=1.2,
    digits=1,
)
_A5 = _fig3(
    id="A5",
    section="2.4, Fig. 3 (top centre)",
    statement="Without checkpointing the saving grows to 4.23x at L = 100",
    quote="the memory savings increases to 4.23x for larger L",
    published=4.23,
    digits=2,
)
_A6 = _fig3(
    id="A6",
    section="2.4, Fig. 3 (bottom centre)",
    statement="With checkpointing the saving over L peaks at around 2.28x",
    quote="the peak gain of around 2.28x at lower L reduces slowly to 2.17x for L=100",
    published=2.28,
    digits=2,
)
_A7 = _fig3(
    id="A7",
    section="2.4, Fig. 3 (top right)",
    statement="Without checkpointing MeZO saves about 24x at a small hidden size (D = 512)",
    quote="the memory saving of MeZO can be as high as approximately 24x",
    published=24,
)
_A8 = _fig3(
    id="A8",
    section="3, Fig. 4",
    statement="Some setting of b, B and N gives all three set-ups of Fig. 4 around 17 GB",
    quote="All models require a similar memory consumption of around 17 GB",
    published=1,
    unit="settings",
    relation="at least",
)


_measured = partial(_fig3, basis="measured", published=1, digits=2)
_UNREAD_CONTEXT = ("which context length is meant",)


_ACCURACY = Claim(
    id="A9",
    paper="mezo",
    section="3, Fig. 4",
    artifact="mezo_fig4",
    statement="After about 2 hours MeZO reaches an accuracy of around 82 % on BoolQ",
    quote="after about 2 hours, the accuracy of MeZO is around 82%",
    published=82,
    unit="%",
    basis="trained",
    remark="the same accuracy is published for Llama 2 13B without any fine-tuning on BoolQ: "
    "81.7 % (77.4 % for the 7B; Touvron et al. 2023, Table 20)",
    unknown=("validation set", "prompt", "epsilon", "batch order"),
)
_ORDER = replace(
    _ACCURACY,
    id="A9-order",
    statement="Within BP's memory the larger model that MeZO can train ends at a higher accuracy",
    quote="MeZO can eventually achieve a higher validation accuracy",
    published=0,
    unit="points",
    relation="at least",
    judged_by=("quick", "hours", "boolq", "day", "gpu-long", "gpu"),
    remark="",
)

_SHORT_PROMPTS = (
    "at the length of these prompts, at most 72 tokens, BP takes less memory than the larger "
    "model's weights"
)


CLAIMS: tuple[Claim, ...] = (
    replace(_A1, unknown=("whether the model grows in depth or in width",)),
    replace(_A1, id="A1-simulated", basis="simulated", same_as="A1"),
    _fig3(
        id="A12",
        section="2.1",
        statement="Llama 2 7B has about 12 D^2 + 2 V D parameters: the real count divided by this",
        quote="we approximate the total parameter count as 4D^2+8D^2+2VD=12D^2+2VD",
        published=1,
        digits=1,
    ),
    _fig3(
        id="A17",
        section="1",
        statement="Parameters of the largest model that BP trains in 80 GB, by equation (2)",
        quote="even an 80 GB GPU can only accommodate models on the order of 33 billion parameters "
        "using BP",
        published=3,
        unit="billion",
        remark="we read 33 as 3, because our copy prints every formula twice (55 for 5); the paper "
        "cites the number from Malladi et al. 2023",
        unknown=("context length", "batch size", "number format", "optimizer"),
    ),
    _fig3(
        id="A19",
        section="1",
        statement="Training a 13B model by BP takes ten times the memory of a forward pass: "
        "equation (2) divided by equation (3)",
        quote="fine-tuning a 13B-parameter transformer can require an order-of-magnitude more "
        "memory than a single forward pass",
        published=10,
        remark="the paper cites the number from Malladi et al. 2023",
        unknown=("context length", "batch size", "number format", "optimizer"),
    ),
    _fig3(
        id="A20",
        section="1",
        statement="At long contexts MeZO trains a model up to 25 times as large as BP does in the "
        "same memory",
        quote="MeZO can accommodate models at least 2x larger than BP within the same budget. This "
        "advantage grows with longer context windows, reaching up to 25x",
        published=25,
    ),
    _fig3(
        id="A14",
        section="2.4, Fig. 3 (top left)",
        statement="At moderate contexts MeZO saves 2x (read at N = 512)",
        quote="range from 2x at moderate contexts",
        is_stated=False,
        published=2,
        unknown=_UNREAD_CONTEXT,
    ),
    _A2,
    replace(_A2, id="A2-simulated", basis="simulated", same_as="A2"),
    _A2_ORDERS,
    replace(_A2_ORDERS, id="A2-orders-simulated", basis="simulated", same_as="A2-orders"),
    _A3,
    replace(_A3, id="A3-simulated", basis="simulated", same_as="A3"),
    replace(
        _A3,
        id="A18",
        statement="At short contexts checkpointing leaves the saving as it is: the saving with "
        "checkpointing divided by the saving without, read at N = 512",
        quote="while remaining unchanged for smaller ones",
        is_stated=False,
        published=1,
        digits=1,
        unknown=_UNREAD_CONTEXT,
    ),
    _A4,
    replace(_A4, id="A4-simulated", basis="simulated", same_as="A4"),
    replace(
        _A4,
        id="A16",
        statement="Embedding and output layer make the saving at L = 1 smaller: the saving without "
        "them divided by the saving with them",
        quote="is smaller, around 1.2x, when L is small due to the contributions from the "
        "embedding layer and the LM head",
        published=1,
        relation="at least",
        digits=2,
    ),
    _A5,
    replace(
        _A5,
        id="A5-asymptote",
        statement="Without checkpointing the saving over L has an asymptote of 4.38x",
        quote="with an asymptotic limit of 4.38",
        published=4.38,
    ),
    replace(_A5, id="A5-simulated", basis="simulated", same_as="A5"),
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
        quote="approaching the asymptotic gain of 2x",
        published=2.0,
        digits=0,
    ),
    replace(
        _A6,
        id="A6-simulated",
        basis="simulated",
        same_as="A6-L100",
        statement="With checkpointing the saving is 2.17x at L = 100",
        published=2.17,
    ),
    _A7,
    replace(
        _A7,
        id="A7-checkpointed",
        section="2.4, Fig. 3 (bottom right)",
        statement="With checkpointing MeZO saves about 5x at a small hidden size (D = 512)",
        quote="which reduces to 5x with BP checkpointing",
        published=5,
    ),
    replace(
        _A7,
        id="A7-asymptote",
        statement="With growing hidden size the saving converges to 2x",
        quote="With larger D, the memory saving ratio converges to 2",
        published=2,
    ),
    replace(_A7, id="A7-simulated", basis="simulated", same_as="A7"),
    _fig3(
        id="A11",
        section="3",
        statement="With L'/L = 1 MeZO takes the memory of BP: equation (3) divided by (2)",
        quote="the BP memory requirement is recovered with L'/L=1",
        published=1,
        digits=2,
    ),
    _measured(
        id="A13",
        section="3",
        statement="Five perturbations a step take the memory of one: peak of a MeZO step with "
        "n = 5 divided by the peak with n = 1",
        quote="the number of perturbations does not affect the memory requirements of MeZO",
    ),
    _measured(
        id="A15",
        section="4",
        statement="MeZO trains in the memory of inference: peak of a MeZO step divided by the "
        "peak of a forward pass, the largest measured",
        quote="reducing training memory demands to the level of inference memory",
    ),
    replace(_A8, is_stated=False),
    *(
        replace(
            _A8,
            id=f"A8-{name}",
            quote=quote,
            statement=f"{model} needs around 17 GB at B = 8, N = 1024",
            published=17,
            unit="GB",
            relation="equals",
        )
        for name, model, quote in (
            (
                "gpt2-medium",
                "GPT-2 medium trained by BP",
                "fine-tuning GPT2-medium using BP has a memory requirement of around 17 GB",
            ),
            (
                "llama-7b",
                "Llama 2 7B trained by MeZO with L'/L = 0.41",
                "a memory of around 17GB is obtained with MeZO when fine-tuning Llama2-7B if "
                "L'/L=0.41",
            ),
            (
                "llama-13b",
                "Llama 2 13B trained by MeZO with L'/L = 0.15",
                "a memory of around 17GB is obtained with MeZO when fine-tuning [...] Llama2-13B "
                "if L'/L=0.15",
            ),
        )
    ),
    _ACCURACY,
    replace(
        _ACCURACY,
        id="A9-bp",
        statement="After about 2 hours BP remains below 75 % on BoolQ",
        quote="that of BP remains below 75%",
        published=75,
        relation="at most",
        remark="",
        unknown=("validation set", "prompt", "batch order"),
    ),
    _ORDER,
    replace(
        _ORDER,
        id="A9-order-sst2",
        statement="Within BP's memory (8 prompts of 1,024 tokens) the larger model that MeZO can "
        "train ends at a higher accuracy on SST-2",
        is_stated=False,
        remark=_SHORT_PROMPTS,
    ),
    replace(
        _ORDER,
        id="A9-order-fewshot",
        statement="Within BP's memory (8 prompts of 1,024 tokens) the larger model that MeZO can "
        "train ends at a higher accuracy when there are 16 training examples a class",
        is_stated=False,
        remark=_SHORT_PROMPTS,
        judged_by=("fewshot",),
    ),
    replace(
        _ORDER,
        id="A10",
        quote="MeZO has a slower fine-tuning convergence rate in terms of wall-clock time",
        statement="MeZO converges more slowly than BP in wall-clock time: the delay until it has "
        "half of BP's gain in accuracy, as a multiple of BP's time; 0 is equally fast",
        unit="x",
        judged_by=(*_ORDER.judged_by, "paper"),
    ),
    *(
        replace(
            claim,
            id=f"{claim.id}-measured",
            artifact="mezo_fig3_gpu",
            basis="measured",
            same_as=claim.same_as or claim.id,
        )
        for claim in (_A1, _A3, _A4, _A7)
    ),
    *(
        replace(
            _A8,
            id=f"A8-{model}-measured",
            artifact="mezo_fig3_gpu",
            statement=f"{model} in its set-up of Fig. 4 takes around 17 GB, measured",
            published=17,
            unit="GB",
            relation="equals",
            basis="measured",
            same_as=f"A8-{model}",
        )
        for model in ("gpt2-medium", "llama-7b", "llama-13b")
    ),
)
