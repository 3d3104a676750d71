"""What is known of a model before hours go into it: whether it can be had, and which it is."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants, set_client_factory
from huggingface_hub.utils import httpx
from huggingface_hub.utils._http import default_client_factory

from repro.core.errors import UsageError
from repro.finetuning.base_models import TINY, load_config, unobtainable
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


Hub = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Hub], None]]:
    """Sets what stands for the hub; its client and its cache are the real ones."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between its attempts
    yield lambda answer: set_client_factory(
        lambda: httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True)
    )
    set_client_factory(default_client_factory)


def unreached(error: type[Exception]) -> Hub:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error("no way there")

    return answer


def in_the_cache_of_the_hub(saved: Path, *names: str) -> None:
    commit = "c" * 40
    place = Path(constants.HF_HUB_CACHE) / "models--someone--small"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    (place / "snapshots" / commit).mkdir()
    for name in names:
        (place / "snapshots" / commit / name).write_bytes((saved / name).read_bytes())


def test_a_gated_model_says_how_to_be_let_in(hub: Callable[[Hub], None]) -> None:
    hub(lambda request: httpx.Response(403, headers={"X-Error-Code": "GatedRepo"}, request=request))
    said = unobtainable("someone/small")
    assert (
        "someone/small is gated: accept its terms at https://huggingface.co/someone/small" in said
    )
    assert "HF_TOKEN" in said


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ProxyError])
def test_without_the_hub_what_is_cached_is_listed(
    saved: Path, hub: Callable[[Hub], None], error: type[Exception]
) -> None:
    hub(unreached(error))
    in_the_cache_of_the_hub(saved, "config.json")
    said = unobtainable("someone/large")
    assert "in the hub's cache: someone/small; hf download NAME gets one" in said
    assert "in the cache: none; repro data fetch NAME gets one" in said


def test_a_hub_that_is_not_reached_is_not_one_without_weights(
    saved: Path, hub: Callable[[Hub], None]
) -> None:
    small = [path.name for path in saved.iterdir() if path.suffix != ".safetensors"]
    in_the_cache_of_the_hub(saved, *small)
    hub(unreached(httpx.ConnectError))
    said = unobtainable("someone/small")
    assert "there is a configuration, but no weights" in said
    assert "on the hub, if that was reached" in said
    assert "hf download NAME gets one" in said


def test_weights_in_the_cache_of_the_hub_need_no_hub(
    saved: Path, hub: Callable[[Hub], None]
) -> None:
    in_the_cache_of_the_hub(saved, *(path.name for path in saved.iterdir()))
    hub(unreached(httpx.ConnectError))
    assert unobtainable("someone/small") == ""


def test_a_missing_directory_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(UsageError, match=r"model \./absent: there is no such file or directory"):
        load_config("./absent")


def test_a_model_with_more_than_text_is_refused(tmp_path: Path) -> None:
    """Its vision tower would be trained, too, and the planner counts the text part alone."""
    from transformers import AutoConfig

    AutoConfig.for_model("gemma3").save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="gemma3 has more than a text part"):
        load_config(str(tmp_path))
