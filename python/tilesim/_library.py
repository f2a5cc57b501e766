"""libtilesim through ctypes: where it is found, its structures and its functions."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

LIBRARY_VARIABLE = "TILESIM_LIBRARY"
FILE_NAME = "libtilesim.so"
HERE = Path(__file__).parent

RESULTS = (
    "ok",
    "hazard",
    "deadlock",
    "trap",
    "mismatch",
    "bad_input",
    "bad_argument",
    "unsupported",
    "io",
    "limit",
    "no_memory",
    "internal",
)
ROLES = ("in", "out", "inout")


class CParameter(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("is_tensor", c_int),
        ("dtype", c_char_p),
        ("dtype_bits", c_uint32),
        ("role", c_int),
        ("has_default", c_int),
        ("rank", c_uint32),
        ("shape", POINTER(c_int64)),
        ("symbols", POINTER(c_char_p)),
        ("default_shape", POINTER(c_int64)),
    ]


class CTensor(ctypes.Structure):
    _fields_ = [
        ("dtype", c_char_p),
        ("rank", c_uint32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("data", c_void_p),
        ("size_bytes", c_uint64),
    ]


Progress = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
"""Called with (user, blocks done, all blocks)."""


class CRunSettings(ctypes.Structure):
    _fields_ = [
        ("schedule", c_char_p),
        ("worker_count", c_uint32),
        ("events_path", c_char_p),
        ("stop_at_first_hazard", c_int),
        ("progress", Progress),
        ("progress_user", c_void_p),
        ("checks", c_int),
        ("check_numbers", c_int),
        ("check_speed", c_int),
    ]


class CStatistics(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "launches",
            "blocks",
            "warps",
            "warp_insns",
            "lane_ops",
            "matrix_macs",
            "tma_boxes",
            "tma_bytes",
            "tensor_bytes",
        )
    ]


class CFidelity(ctypes.Structure):
    _fields_ = [("what", c_char_p), ("level", c_char_p), ("source", c_char_p), ("insn_count", c_uint32)]


class CDiagnostic(ctypes.Structure):
    _fields_ = [
        ("code", c_char_p),
        ("title", c_char_p),
        ("severity", c_char_p),
        ("message", c_char_p),
        ("hint", c_char_p),
        ("file", c_char_p),
        ("line", c_uint32),
        ("column", c_uint32),
        ("other_file", c_char_p),
        ("other_line", c_uint32),
        ("other_column", c_uint32),
        ("function", c_char_p),
        ("block", c_int64),
        ("warp", c_int64),
        ("lane", c_int64),
        ("repeat_count", c_uint64),
    ]


class COpRow(ctypes.Structure):
    _fields_ = [("mnemonic", c_char_p), ("unit", c_char_p), ("operands", c_char_p), ("synopsis", c_char_p)]


EVENT_TEXTS = ("kind", "op", "dtype", "source_space", "target_space", "sync_kind", "function", "file")
EVENT_LANES = 32
EVENT_BOX_RANK = 5


class CEvent(ctypes.Structure):
    """Texts are addresses: few distinct ones occur, and each is decoded once."""

    _fields_ = [
        ("seq", c_uint64),
        *((name, c_size_t) for name in EVENT_TEXTS),
        ("line", c_uint32),
        ("column", c_uint32),
        ("launch", c_uint32),
        ("block", c_uint32),
        ("warp", c_uint32),
        ("insn", c_uint32),
        ("mask", c_uint32),
        ("vector_lanes", c_uint32),
        ("bytes", c_uint32),
        ("work", c_uint32),
        ("sync_object", c_uint32),
        ("sync_phase", c_uint32),
        ("cause", c_uint64),
        ("target_block", c_uint32),
        ("addresses", c_int),
        ("size_bytes", c_uint32),
        ("address", c_uint64),
        ("lane_stride_bytes", c_int64),
        ("lane_address", c_uint64 * EVENT_LANES),
        ("box_rank", c_uint32),
        ("box_extent", c_uint32 * EVENT_BOX_RANK),
        ("box_coordinate", c_int32 * EVENT_BOX_RANK),
        ("box_stride_bytes", c_uint64 * EVENT_BOX_RANK),
        ("box_tensor_extent", c_uint64 * EVENT_BOX_RANK),
    ]


_SIM = c_void_p
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "ts_version": (c_char_p, []),
    "ts_result_text": (c_char_p, [c_int]),
    "ts_sim_create": (c_int, [c_void_p, POINTER(_SIM)]),
    "ts_sim_free": (None, [_SIM]),
    "ts_sim_set_memory_limit": (None, [_SIM, c_uint64]),
    "ts_sim_set_machine": (c_int, [_SIM, c_char_p, c_char_p]),
    "ts_sim_open": (c_int, [_SIM, c_char_p, c_int]),
    "ts_sim_ir": (c_int, [_SIM, POINTER(c_void_p), POINTER(c_size_t)]),
    "ts_sim_parameter_count": (c_uint32, [_SIM]),
    "ts_sim_parameter": (c_int, [_SIM, c_uint32, POINTER(CParameter)]),
    "ts_sim_set_tensor": (c_int, [_SIM, c_char_p, POINTER(CTensor)]),
    "ts_sim_set_null": (c_int, [_SIM, c_char_p]),
    "ts_sim_set_int": (c_int, [_SIM, c_char_p, c_int64]),
    "ts_sim_set_float": (c_int, [_SIM, c_char_p, c_double]),
    "ts_sim_set_text": (c_int, [_SIM, c_char_p, c_char_p]),
    "ts_sim_clear_arguments": (None, [_SIM]),
    "ts_sim_run": (c_int, [_SIM, POINTER(CRunSettings)]),
    "ts_sim_tensor": (c_int, [_SIM, c_char_p, POINTER(CTensor)]),
    "ts_sim_statistics": (None, [_SIM, POINTER(CStatistics)]),
    "ts_sim_op_executed": (c_uint64, [_SIM, c_uint32]),
    "ts_sim_fidelity_count": (c_uint32, [_SIM]),
    "ts_sim_fidelity": (c_int, [_SIM, c_uint32, POINTER(CFidelity)]),
    "ts_sim_diagnostic_count": (c_uint32, [_SIM]),
    "ts_sim_diagnostic": (c_int, [_SIM, c_uint32, POINTER(CDiagnostic)]),
    "ts_sim_clear_diagnostics": (None, [_SIM]),
    "ts_op_row_count": (c_uint32, []),
    "ts_op_row_get": (c_int, [c_uint32, POINTER(COpRow)]),
    "ts_events_open": (c_int, [_SIM, c_char_p, POINTER(c_void_p)]),
    "ts_events_next": (c_int, [c_void_p, POINTER(CEvent), POINTER(c_int)]),
    "ts_events_close": (None, [c_void_p]),
}


def _library_path() -> Path:
    """The file named by TILESIM_LIBRARY (or in the folder it names), else the one in the package."""
    chosen = os.environ.get(LIBRARY_VARIABLE)
    path = Path(chosen) if chosen else HERE / FILE_NAME
    if chosen and path.is_dir():
        path = path / FILE_NAME
    if path.is_file():
        return path
    if chosen:
        raise ImportError(f"{LIBRARY_VARIABLE} is {chosen!r}, and there is no {path}")
    raise ImportError(
        f"{path} is missing: install the package with `pip install ./python`, "
        f"or let {LIBRARY_VARIABLE} name a build folder"
    )


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, with prototypes. Raises ImportError when there is none."""
    path = _library_path()
    try:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} is not a usable libtilesim: {error}") from error
    return loaded


def text(value: bytes | None) -> str | None:
    """A text of the library."""
    return None if value is None else value.decode("utf-8", "replace")


def version() -> str:
    """Version of the library."""
    return library().ts_version().decode()


@functools.cache
def mnemonics() -> tuple[str, ...]:
    """Names of the operations, in order of their number."""
    row = COpRow()
    names = []
    for index in range(library().ts_op_row_count()):
        library().ts_op_row_get(index, ctypes.byref(row))
        names.append(row.mnemonic.decode())
    return tuple(names)
