"""What is known of a model before hours go into it: whether it can be had, and which it is."""

from pathlib import Path

import pytest

from repro.core.errors import UsageError
from repro.finetuning.base_models import TINY, fingerprint, load_config, unobtainable
from repro.models.tiny import tiny_llama


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A whole model in a directory."""
    model, tokenizer = tiny_llama()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_whole_model_can_be_had(saved: Path) -> None:
    assert unobtainable(TINY) == ""
    assert unobtainable(str(saved)) == ""


def test_a_configuration_without_weights_is_told(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    assert "there is a configuration, but no weights" in unobtainable(str(saved))


def test_a_model_without_a_tokenizer_is_told(saved: Path) -> None:
    for path in saved.glob("*token*"):
        path.unlink()
    assert "no causal language model" in unobtainable(str(saved))


def test_a_missing_directory_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(UsageError, match=r"model \./absent: there is no such file or directory"):
        load_config("./absent")


def test_other_weights_have_another_fingerprint(saved: Path) -> None:
    before = fingerprint(str(saved))
    assert fingerprint(str(saved)) == before
    (saved / "model.safetensors").write_bytes(b"retrained")
    assert fingerprint(str(saved)) != before
    assert fingerprint(TINY) == fingerprint("smollm2-135m") == ""
