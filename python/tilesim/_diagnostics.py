"""What the simulator has to say, and the exceptions that carry it."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _library

if TYPE_CHECKING:
    from ._case import Result


@dataclass(frozen=True)
class Diagnostic:
    """One error, hazard or remark. Fields that do not apply are None."""

    code: str
    """For example "TS-RACE-001"; docs/diagnostics.md lists them."""
    title: str
    severity: str
    """"error", "hazard" or "remark"."""
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    other_file: str | None = None
    """The second access of a hazard."""
    other_line: int | None = None
    other_column: int | None = None
    function: str | None = None
    block: int | None = None
    warp: int | None = None
    lane: int | None = None
    repeat_count: int = field(default=1, compare=False)

    @property
    def source(self) -> str | None:
        """The line of source that the diagnostic is about, when its file is at hand."""
        return _source(self.file, self.line)

    @property
    def other_source(self) -> str | None:
        """The line of source of the second access."""
        return _source(self.other_file, self.other_line)

    def __str__(self) -> str:
        lines = [f"{_place(self.file, self.line)}{self.severity} {self.code}: {self.message}"]
        agents = [("block", self.block), ("warp", self.warp), ("lane", self.lane)]
        where = [self.function or ""] + [f"{name} {index}" for name, index in agents if index is not None]
        if any(where):
            lines.append("  in " + ", ".join(filter(None, where)))
        if self.source:
            lines.append("  | " + self.source)
        if self.other_file:
            lines.append(f"  {_place(self.other_file, self.other_line)}the other access")
            if self.other_source:
                lines.append("  | " + self.other_source)
        if self.hint:
            lines.append("  hint: " + self.hint)
        return "\n".join(lines)


def _source(file: str | None, line: int | None) -> str | None:
    return (linecache.getline(file, line).strip() or None) if file and line else None


def _place(file: str | None, line: int | None) -> str:
    return "".join(f"{part}:" for part in (file, line) if part) + " " if file else ""


class Error(Exception):
    """Base of what tilesim raises. `diagnostics` tells the story, `status` is the kind of failure."""

    def __init__(self, status: str, diagnostics: Sequence[Diagnostic] = (), summary: str = "") -> None:
        self.status = status
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join([summary or status, *map(str, self.diagnostics)]))


class InputError(Error, ValueError):
    """A case folder is malformed, or the host function rejects an argument."""


class UnsupportedError(Error, NotImplementedError):
    """The case uses something that tilesim does not know."""


class HazardError(Error):
    """The kernel is at fault: a hazard, a deadlock or a trap. `result` holds what it computed."""

    result: Result | None = None


_ERRORS: dict[str, type[Error]] = {
    "hazard": HazardError,
    "deadlock": HazardError,
    "trap": HazardError,
    "bad_input": InputError,
    "bad_argument": InputError,
    "unsupported": UnsupportedError,
}


def make_error(status: int, diagnostics: Sequence[Diagnostic]) -> Error:
    """The exception for a status other than "ok"."""
    name = _library.RESULTS[status]
    summary = _library.text(_library.library().ts_result_text(status))
    return _ERRORS.get(name, Error)(name, diagnostics, summary or name)


def make_diagnostic(record: _library.CDiagnostic) -> Diagnostic:
    """A copy of the library's record."""

    def known(value: int) -> int | None:
        return value if value >= 0 else None

    text = _library.text
    return Diagnostic(
        code=text(record.code) or "",
        title=text(record.title) or "",
        severity=text(record.severity) or "",
        message=text(record.message) or "",
        hint=text(record.hint),
        file=text(record.file),
        line=record.line or None,
        column=record.column or None,
        other_file=text(record.other_file),
        other_line=record.other_line or None,
        other_column=record.other_column or None,
        function=text(record.function),
        block=known(record.block),
        warp=known(record.warp),
        lane=known(record.lane),
        repeat_count=record.repeat_count,
    )
