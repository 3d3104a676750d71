"""The command-line program, on this machine and for 64-bit ARM under emulation."""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repro.data.batches import normalise
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.quantise import quantise
from repro.integer.tensor import IntegerTensor
from repro.models.lenet5 import lenet5
from repro.ondevice.build import SOURCES

pytestmark = pytest.mark.slow  # compiles

ITEMS, BATCH = 96, 32
PARTITIONS: dict[str, str | int] = {"full_zo": 12, "cls2": "fc3", "cls1": "fc2", "full_bp": 0}
MACHINES = {
    "native": (["c++", "cmake"], [], []),
    "aarch64": (
        ["aarch64-linux-gnu-g++", "qemu-aarch64", "cmake"],
        [
            "-DCMAKE_SYSTEM_NAME=Linux",
            "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
            "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
        ],
        ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    ),
    "sanitized": (["c++", "cmake"], ["-DZO_SANITIZE=address,undefined"], []),
}


@pytest.fixture(scope="session", params=MACHINES)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs zo-train."""
    tools, options, emulator = MACHINES[request.param]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{request.param} needs {tool}")
    directory = tmp_path_factory.mktemp(request.param)
    subprocess.run(["cmake", "-S", SOURCES, "-B", directory, *options], check=True)
    subprocess.run(["cmake", "--build", directory, "--parallel", "2"], check=True)
    return [*emulator, str(directory / "zo-train")]


def write_idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def data(tmp_path: Path) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Grey images, labels, and the options that name their files."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (ITEMS, 28, 28))
    labels = generator.integers(0, 10, ITEMS)
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", labels)
    options = ["--images", str(tmp_path / "images"), "--labels", str(tmp_path / "labels")]
    return torch.from_numpy(images.astype(np.uint8)), torch.from_numpy(labels), options


@pytest.fixture
def files(data: tuple[torch.Tensor, torch.Tensor, list[str]]) -> list[str]:
    """The options that name the files of images and labels."""
    return data[2]


def run(program: list[str], *options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *map(str, options)], capture_output=True, text=True, check=False
    )


def initial(path: Path) -> IntegerNetwork:
    """A random network, also written to ``path`` as the program reads it."""
    network = IntegerNetwork.random(lenet5(bias=False), seed=4)
    exponents = [layer.weight.exponent for layer in network.weighted.values()]
    weights = network.parameters.numpy()
    path.write_bytes(np.concatenate([np.array(exponents, np.int8), weights]).tobytes())
    return network


@pytest.mark.parametrize(
    ("precision", "mode"), [("int8", []), ("int8_star", []), ("int8_star", ["--compact"])]
)
@pytest.mark.parametrize("method", PARTITIONS)
def test_two_hundred_steps_are_those_of_the_reference(
    program: list[str], data: Any, tmp_path: Path, method: str, precision: str, mode: list[str]
) -> None:
    images, labels, files = data
    network = initial(tmp_path / "begin")
    steps = 200
    options = ["--load", tmp_path / "begin", "--save", tmp_path / "end", "--sequential"]
    options += ["--method", method, "--precision", precision, "--seed", 3, "--batch", BATCH]
    done = run(program, *files, *options, *mode, "--steps", steps, "--epochs", 1000)
    assert done.returncode == 0, done.stderr

    sign = "integer" if precision == "int8_star" else "float"
    reference = ElasticZOInt8(network, PARTITIONS[method], sign=sign, seed=3)  # type: ignore[arg-type]
    levels = torch.arange(256, dtype=torch.uint8).view(256, 1, 1)
    exponent = quantise(normalise(levels, 0.1307, 0.3081)).exponent
    inputs = quantise(normalise(images, 0.1307, 0.3081), exponent).values
    for step in range(steps):
        at = slice(step * BATCH % ITEMS, step * BATCH % ITEMS + BATCH)
        reference.step(IntegerTensor(inputs[at], exponent), labels[at])
    weights = np.frombuffer((tmp_path / "end").read_bytes(), np.int8)[len(network.sizes) :]
    assert np.array_equal(weights, network.parameters.numpy())


@pytest.mark.parametrize("precision", ["fp32", "int8", "int8_star"])
def test_prints_accuracy_and_the_time_of_each_phase(
    program: list[str], data: Any, precision: str
) -> None:
    _, _, files = data
    tests = ["--test-images", files[1], "--test-labels", files[3]]
    done = run(program, *files, *tests, "--precision", precision, "--batch", 20, "--threads", 2)
    assert done.returncode == 0, done.stderr
    assert "epoch 1, 5 steps, test accuracy" in done.stdout
    phases = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert phases == ["forward", "loss", "perturb", "update", "backward", "other"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch", "0"], "--batch 0: must be finite and at least 1"),
        (["--batch", "1e9"], "--batch 1e9: must be a whole number from 1 to 1048576"),
        (["--batch", "99999999"], "--batch 99999999: must be at most 1048576"),
        (["--precision", "fp32", "--lr", "nan"], "--lr nan: must be finite"),
        (["--colour", "red"], "--colour: unknown option"),
        (["--seed"], "--seed: its value is missing"),
        (["--method", "sgd"], "--method sgd: must be full_zo"),
        (["--isa", "mmx"], "instruction set mmx: this machine has auto"),
        (["--r-max", "200"], "r_max = 200: must be from 2 to 127"),
        (["--precision", "fp32", "--compact"], "--compact has no effect with --precision fp32"),
        (["--precision", "fp32", "--r-max", "3"], "--r-max has no effect with --precision fp32"),
        (["--clip", "1", "--precision", "int8_star"], "no effect with --precision int8_star"),
        (["--precision", "int4"], "--precision int4: must be fp32, int8 or int8_star"),
        (["--classes", "5"], "a label is above 4"),
        (["--load", "/"], "must be a file of"),
        (["--save", "/nonexistent/weights"], "--save /nonexistent/weights: cannot be written"),
        (["--images", "/"], "/: cannot be opened"),
        (["--deviation", "0"], "--mean and --deviation: 256 grey levels become"),
        (["--precision", "fp32", "--lr", "1e300"], "--lr 1e300: must be at most 1000000"),
        (["--seed", "-1"], "--seed -1: must be a whole number from 0 to 18446744073709551615"),
    ],
)
def test_wrong_options_end_in_an_error(
    program: list[str], data: Any, options: list[str], message: str
) -> None:
    done = run(program, *data[2], *options)
    assert done.returncode in (1, 2)
    assert message in done.stderr


def test_weights_are_kept_after_every_epoch(program: list[str], data: Any, tmp_path: Path) -> None:
    """The file is replaced after every epoch, and nothing else is left behind."""
    _, _, files = data
    common = ["--sequential", "--batch", BATCH, "--epochs", 2]
    run(program, *files, *common, "--steps", ITEMS // BATCH, "--save", tmp_path / "one")
    one = (tmp_path / "one").read_bytes()
    run(program, *files, *common, "--save", tmp_path / "two")
    assert (tmp_path / "two").read_bytes() != one
    assert {path.name for path in tmp_path.iterdir()} == {"images", "labels", "one", "two"}


def test_a_link_is_written_through(program: list[str], data: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("weights")
    for path in ("link", "own"):
        run(program, *data[2], "--steps", 1, "--save", tmp_path / path)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "weights").read_bytes() == (tmp_path / "own").read_bytes()


def test_output_that_cannot_be_written_is_an_error(program: list[str], data: Any) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*program, *map(str, data[2]), "--steps", "1"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "the output cannot be written" in done.stderr


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=64),
        st.tuples(
            st.integers(0, 5),
            st.lists(st.integers(0, 2**32 - 1), max_size=5),
            st.binary(max_size=64),
        ).map(
            lambda parts: (
                bytes([0, 0, 8, parts[0]])
                + b"".join(struct.pack(">I", n) for n in parts[1])
                + parts[2]
            )
        ),
    )
)
def test_no_file_crashes_it(program: list[str], data: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fuzz").write_bytes(content)
    for options in (
        ["--images", str(tmp_path / "fuzz"), *data[2][2:]],
        [*data[2][:2], "--labels", str(tmp_path / "fuzz")],
    ):
        done = run(program, *options, "--steps", 1)
        assert done.returncode in (0, 1, 2), done.stderr
        assert (done.returncode == 0) == (not done.stderr)


NAMES = [
    *("--test-images", "--test-labels", "--precision", "--method", "--batch", "--classes"),
    *("--seed", "--lr", "--eps", "--clip", "--r-max", "--mean", "--deviation", "--isa", "--load"),
    *("--save", "--sequential", "--compact", "--epochs", "--help", ""),
]
VALUES = st.one_of(
    st.sampled_from(["", "0", "-1", "nan", "inf", "1e400", "9" * 30, "127", "1e-46", "0x10", "."]),
    st.sampled_from(
        ["fp32", "int8", "int8_star", "full_zo", "cls2", "cls1", "full_bp", "baseline"]
    ),
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(str),
    st.text(st.characters(codec="ascii", min_codepoint=32, exclude_characters="/"), max_size=6),
)


@pytest.mark.parametrize(
    ("name", "most"), [("--batch", 2**20), ("--classes", 256), ("--threads", 1024)]
)
@pytest.mark.parametrize("beyond", [1, 2**31 - 1])
def test_a_size_beyond_its_limit_is_refused(
    program: list[str], files: list[str], name: str, most: int, beyond: int
) -> None:
    value = max(most + 1, beyond)
    done = run(program, *files, name, value)
    assert done.returncode == 2
    assert done.stderr == f"zo-train: error: {name} {value}: must be at most {most}\n"


def test_a_batch_takes_no_more_memory_than_there_are_images(
    program: list[str], files: list[str]
) -> None:
    fitting, largest = (
        run(program, *files, "--batch", size, "--steps", "1") for size in (ITEMS, 2**20)
    )
    assert fitting.returncode == largest.returncode == 0, largest.stderr
    arenas = [done.stdout.partition("arena ")[2].split()[0] for done in (fitting, largest)]
    assert arenas[0] == arenas[1]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5), data=st.data())
def test_no_option_crashes_it(
    program: list[str],
    files: list[str],
    tmp_path: Path,
    options: list[tuple[str, str]],
    data: st.DataObject,
) -> None:
    words = [word for option in options for word in option]
    if data.draw(st.booleans()):
        words = [word for word in words if data.draw(st.integers(0, 9))]
    done = subprocess.run(
        [*program, *files, *words, "--steps", "1"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2), done.stderr
    assert (done.returncode == 0) == (not done.stderr)
    if done.stderr:
        assert done.stderr.startswith("zo-train: error: ")
        assert done.stderr.count("\n") == 1
