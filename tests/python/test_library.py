"""Finding the library, and keeping in step with its header."""

import ctypes
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from tilesim import _library


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", _library.version())


def test_variable_names_a_library_or_its_folder():
    for place in (_library._library_path(), _library._library_path().parent):
        done = run_python("import tilesim; print(tilesim.version())", TILESIM_LIBRARY=str(place))
        assert done.stdout.strip() == _library.version(), done.stderr


def test_wrong_variable_is_explained(tmp_path):
    done = run_python("import tilesim; tilesim.version()", TILESIM_LIBRARY=str(tmp_path))
    assert "ImportError: TILESIM_LIBRARY is" in done.stderr
    (tmp_path / "libtilesim.so").write_text("no library")
    done = run_python("import tilesim; tilesim.version()", TILESIM_LIBRARY=str(tmp_path))
    assert "is not a usable libtilesim" in done.stderr


def test_structures_are_those_of_the_header(tmp_path):
    """Sizes and field offsets as the C compiler sees them."""
    structures = {
        "ts_parameter": _library.CParameter,
        "ts_tensor": _library.CTensor,
        "ts_run_settings": _library.CRunSettings,
        "ts_statistics": _library.CStatistics,
        "ts_fidelity_info": _library.CFidelity,
        "ts_diagnostic": _library.CDiagnostic,
        "ts_op_row": _library.COpRow,
        "ts_event_record": _library.CEvent,
    }
    lines = []
    for name, structure in structures.items():
        lines.append(f"CHECK(sizeof(struct {name}) == {ctypes.sizeof(structure)})")
        for field in structure._fields_:
            offset = getattr(structure, field[0]).offset
            lines.append(f"CHECK(offsetof(struct {name}, {field[0]}) == {offset})")
    lines += [f"CHECK(TS_RESULT_{result.upper()} == {i})" for i, result in enumerate(_library.RESULTS)]
    lines += [f"CHECK(TS_ROLE_{role.upper()} == {i})" for i, role in enumerate(_library.ROLES)]
    source = tmp_path / "check.c"
    head = '#include "tilesim/event.h"\n#define CHECK(x) _Static_assert(x, #x);\n'
    source.write_text(head + "\n".join(lines) + "\n")
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-std=c11", "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"no C compiler {compiler}")
    assert done.returncode == 0, done.stderr


def test_tilelang_that_is_missing_is_explained():
    code = "import sys; sys.modules['tilelang'] = None; import tilesim.tilelang as t; t.compile(None)"
    done = run_python(code)
    assert "ImportError: tilesim.tilelang needs TileLang: pip install torch==2.13.0 tilelang==0.1.15" in done.stderr
