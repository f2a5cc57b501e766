"""Event files: what happened in a run, in which order, never when."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from . import _library
from ._diagnostics import make_diagnostic, make_error

_ADDRESSES_LANES, _ADDRESSES_BOX = 2, 3
_CHUNK = 1 << 14


class Event(NamedTuple):
    """One event. docs/trace-format.md says what the fields mean for each kind."""

    seq: int
    kind: str
    op: str
    dtype: str
    source_space: str
    target_space: str
    sync_kind: str
    function: str
    file: str
    line: int
    column: int
    launch: int
    block: int
    warp: int
    insn: int
    mask: int
    vector_lanes: int
    bytes: int
    work: int
    sync_object: int
    sync_phase: int
    cause: int
    target_block: int
    """Whose shared memory or mbarrier is acted on; mostly that of the warp."""
    size_bytes: int
    address: int
    lane_stride_bytes: int
    lane_address: tuple[int, ...] | None = None
    """Per lane, where the addresses are not affine."""
    box_extent: tuple[int, ...] | None = None
    """Of a tensor map's box, innermost dimension first."""
    box_coordinate: tuple[int, ...] | None = None
    box_stride_bytes: tuple[int, ...] | None = None
    box_tensor_extent: tuple[int, ...] | None = None
    """What lies outside is not moved."""


_COLUMNS = Event._fields[: Event._fields.index("lane_address")]  # those that are not optional


class _Reader:
    """An open event file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._library = _library.library()
        self._sim, self._events = ctypes.c_void_p(), ctypes.c_void_p()
        self._texts: dict[int, str] = {0: ""}
        if self._library.ts_sim_create(None, ctypes.byref(self._sim)):
            raise MemoryError("no memory for a simulation")
        try:
            self._check(self._library.ts_events_open(self._sim, os.fsencode(path), ctypes.byref(self._events)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._library.ts_events_close(self._events)
        self._library.ts_sim_free(self._sim)
        self._events, self._sim = ctypes.c_void_p(), ctypes.c_void_p()

    def next(self, record: _library.CEvent) -> bool:
        """Reads into record; False at the end."""
        is_end = ctypes.c_int()
        self._check(self._library.ts_events_next(self._events, ctypes.byref(record), ctypes.byref(is_end)))
        return not is_end.value

    def text(self, address: int) -> str:
        known = self._texts.get(address)
        if known is None:
            known = self._texts[address] = ctypes.string_at(address).decode("utf-8", "replace")
        return known

    def _check(self, status: int) -> None:
        if not status:
            return
        record = _library.CDiagnostic()
        diagnostics = []
        for index in range(self._library.ts_sim_diagnostic_count(self._sim)):
            self._library.ts_sim_diagnostic(self._sim, index, ctypes.byref(record))
            diagnostics.append(make_diagnostic(record))
        raise make_error(status, diagnostics)


def events(path: str | os.PathLike[str]) -> Iterator[Event]:
    """The events of a file that run(..., events=path) wrote. Raises InputError when it is damaged."""
    reader = _Reader(path)
    record = _library.CEvent()
    try:
        while reader.next(record):
            yield _make_event(reader, record)
    finally:
        reader.close()


def _make_event(reader: _Reader, record: _library.CEvent) -> Event:
    event = Event(
        record.seq,
        *[reader.text(getattr(record, name)) for name in _library.EVENT_TEXTS],
        *[getattr(record, name) for name in _COLUMNS[1 + len(_library.EVENT_TEXTS) :]],
    )
    if record.addresses == _ADDRESSES_LANES:
        return event._replace(lane_address=tuple(record.lane_address))
    if record.addresses == _ADDRESSES_BOX:
        names = ("box_extent", "box_coordinate", "box_stride_bytes", "box_tensor_extent")
        return event._replace(**{name: tuple(getattr(record, name)[: record.box_rank]) for name in names})
    return event


def event_table(path: str | os.PathLike[str]) -> np.ndarray:
    """The whole file as a structured array: the fields of Event up to lane_stride_bytes."""
    raw = np.dtype(_library.CEvent)
    table = np.dtype([(name, object if name in _library.EVENT_TEXTS else raw[name]) for name in _COLUMNS])
    reader = _Reader(path)
    chunk = (_library.CEvent * _CHUNK)()
    parts = []
    try:
        while True:
            count = 0
            while count < _CHUNK and reader.next(chunk[count]):
                count += 1
            rows = np.frombuffer(chunk, raw, count)
            part = np.empty(count, table)
            for name in _COLUMNS:
                part[name] = _decode(reader, rows[name]) if name in _library.EVENT_TEXTS else rows[name]
            parts.append(part)
            if count < _CHUNK:
                return np.concatenate(parts)
    finally:
        reader.close()


def _decode(reader: _Reader, addresses: np.ndarray) -> np.ndarray:
    distinct, index = np.unique(addresses, return_inverse=True)
    return np.array([reader.text(int(address)) for address in distinct], dtype=object)[index]
