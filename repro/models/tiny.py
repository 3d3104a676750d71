"""A tiny Llama with random weights and its own tokenizer, for runs without a network."""

from functools import cache

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from repro.core.names import Dtype
from repro.data.text.rows import read_rows
from repro.data.text.tasks import get_task
from repro.data.text.yesno_facts import make
from repro.models.pretrained import Pretrained

_UNKNOWN = "<unk>"


def tiny_config() -> LlamaConfig:
    """Return a Llama of two layers, with grouped queries and tied embeddings."""
    return LlamaConfig(
        vocab_size=len(_words()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        use_cache=False,
        # the defaults, 1 and 2, are the answers Yes and No in this vocabulary
        bos_token_id=None,
        eos_token_id=None,
    )


def tiny_llama(dtype: Dtype = "float32") -> Pretrained:
    """Return the model in evaluation mode, always with the same weights, and its tokenizer."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = LlamaForCausalLM(tiny_config())
    return Pretrained(model.to(getattr(torch, dtype)).eval(), tiny_tokenizer())


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer, whose tokens are whole words, without a padding token."""
    words = _words()
    backend = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, _UNKNOWN))
    backend.pre_tokenizer = Whitespace()
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend, unk_token=_UNKNOWN
    )
    return made


@cache
def _words() -> tuple[str, ...]:
    """Return every word of the generated set's training prompts, the answers first."""
    splitter = Whitespace()
    task = get_task("yesno-facts")
    rows = read_rows(bytes(make()["train"]), "train", task.fields, task.label)
    texts = (task.prompt(row).text for row in rows)
    found = {word for text in texts for word, _ in splitter.pre_tokenize_str(text)}
    return (_UNKNOWN, "Yes", "No", *sorted(found))
