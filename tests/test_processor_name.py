"""The processor's name in records tells generations of one brand apart."""

from pathlib import Path

import pytest

from repro.measurement import environment

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
power management:

processor\t: 1
model name\t: another
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (X86, "AMD EPYC (family 26, model 2)"),
        (X86.replace("\t: 26", "\t: 25"), "AMD EPYC (family 25, model 2)"),
        (ARM, "unknown"),
        (f"{ARM}CPU part\t: 0xd08\n", "Arm implementer 0x41, part 0xd08"),
        (f"{ARM}CPU part\t: 0xd0b\n", "Arm implementer 0x41, part 0xd0b"),
        (None, "unknown"),
    ],
)
def test_family_and_model_follow_the_name(
    cpuinfo: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> str:
        assert path == Path("/proc/cpuinfo")
        if cpuinfo is None:
            raise FileNotFoundError(path)
        return cpuinfo

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(environment.platform, "processor", lambda: "")
    assert environment._cpu_model() == name
