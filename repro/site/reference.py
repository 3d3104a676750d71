"""Generate the API reference from signatures and docstrings, one Markdown document per package.

The sources are parsed, not imported, so names appear as they are written.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import griffe

PACKAGES = ("methods", "integer", "ondevice", "memory")
"""The packages with a public API."""
_ROOT = Path(__file__).parents[2]
_LONGEST = 80
"""Largest number of characters of a signature on one line."""


def reference(package: str) -> str:
    """Return the Markdown reference of a package in ``PACKAGES``."""
    loaded = _suite()[package]
    parts = [f"# Reference of `repro.{package}`", *_docstring(loaded)]
    for name, module in sorted(loaded.modules.items()):
        if not name.startswith("_"):
            parts += [f"## `{module.path}`", *_docstring(module), *_members(module)]
    return "\n\n".join(parts) + "\n"


@cache
def _suite() -> griffe.Module:
    """Parse the whole suite, since a package alone cannot be."""
    loaded = griffe.load(
        "repro", search_paths=[_ROOT], docstring_parser="google", allow_inspection=False
    )
    assert isinstance(loaded, griffe.Module)  # noqa: S101 - it is a package
    return loaded


def _members(module: griffe.Module) -> Iterator[str]:
    """Yield a module's constants, then its classes with their members, and its functions."""
    public = {
        name: member
        for name, member in module.members.items()
        if not member.is_alias and not name.startswith("_") and member.docstring
    }
    yield from _values("Constants and types", public)
    for name, member in public.items():
        if isinstance(member, griffe.Class | griffe.Function):
            yield f"### `{module.name}.{name}`"
            yield _signature(member)
            yield from _docstring(member)
        if not isinstance(member, griffe.Class):
            continue
        if (made := member.members.get("__init__")) is not None and made.docstring is not None:
            yield from _docstring(made)
        own = {n: m for n, m in member.members.items() if not n.startswith("_") and m.docstring}
        yield from _values("Attributes", own)
        for method, function in own.items():
            if isinstance(function, griffe.Function):
                yield f"#### `{module.name}.{name}.{method}`"
                yield _signature(function)
                yield from _docstring(function)


def _values(title: str, members: Mapping[str, griffe.Object | griffe.Alias]) -> Iterator[str]:
    lines = [
        f"- `{name}`: {' '.join(member.docstring.value.split())}"
        for name, member in members.items()
        if isinstance(member, griffe.Attribute) and member.docstring
    ]
    if lines:
        yield f"{title}:\n\n" + "\n".join(lines)


def _signature(one: griffe.Class | griffe.Function) -> str:
    """Return the call as code, with one parameter per line if it is long."""
    given = [p for p in one.parameters if p.name not in ("self", "cls")] or _fields(one)
    parameters, kinds = [_parameter(p) for p in given], [p.kind for p in given]
    keyword = griffe.ParameterKind.keyword_only
    if keyword in kinds and griffe.ParameterKind.var_positional not in kinds:
        parameters.insert(kinds.index(keyword), "*")
    returned = f" -> {one.returns}" if isinstance(one, griffe.Function) and one.returns else ""
    call = f"{one.name}({', '.join(parameters)}){returned}"
    if len(call) > _LONGEST:
        lines = "".join(f"    {parameter},\n" for parameter in parameters)
        call = f"{one.name}(\n{lines}){returned}"
    return f"```python\n{call}\n```"


def _fields(one: griffe.Class | griffe.Function) -> list[griffe.Parameter]:
    """Return the fields of a named tuple, for which griffe has no parameters."""
    if not isinstance(one, griffe.Class) or "NamedTuple" not in map(str, one.bases):
        return []
    fields = (m for m in one.members.values() if isinstance(m, griffe.Attribute))
    return [griffe.Parameter(f.name, annotation=f.annotation, default=f.value) for f in fields]


def _parameter(one: griffe.Parameter) -> str:
    stars = {
        griffe.ParameterKind.var_positional: "*",
        griffe.ParameterKind.var_keyword: "**",
    }.get(one.kind, "") if one.kind else ""  # fmt: skip
    annotation = f": {one.annotation}" if one.annotation is not None else ""
    spaced = " = " if annotation else "="
    has_default = one.default is not None and not stars
    return f"{stars}{one.name}{annotation}{f'{spaced}{one.default}' if has_default else ''}"


def _docstring(one: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the sections of a docstring."""
    for section in one.docstring.parsed if one.docstring else ():
        if isinstance(section, griffe.DocstringSectionText):
            yield section.value.replace("::\n", ":\n")
        elif isinstance(section, griffe.DocstringSectionParameters):
            yield "Parameters:\n\n" + "\n".join(
                f"- `{each.name}`: {' '.join(each.description.split())}" for each in section.value
            )
        elif isinstance(section, griffe.DocstringSectionReturns | griffe.DocstringSectionYields):
            what = "Returns" if isinstance(section, griffe.DocstringSectionReturns) else "Yields"
            said = " ".join(" ".join(each.description.split()) for each in section.value)
            yield f"{what}: {said}"
        elif isinstance(section, griffe.DocstringSectionRaises):
            yield "Raises:\n\n" + "\n".join(
                f"- `{each.annotation}`: {' '.join(each.description.split())}"
                for each in section.value
            )
        elif isinstance(section, griffe.DocstringSectionAdmonition):
            yield f"{section.title}:\n\n{section.value.contents}"
