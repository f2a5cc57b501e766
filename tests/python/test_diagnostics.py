"""Hazards as exceptions, as lists and as failed tests."""

import numpy as np
import pytest

import tilesim


@pytest.fixture
def deadlock(cases):
    """Producer and consumer with a __syncthreads between them: hangs on a GPU."""
    return cases / "deadlock_by_hand"


def test_run_raises(deadlock):
    with pytest.raises(tilesim.HazardError, match="TS-SYNC-001") as caught:
        tilesim.run(deadlock)
    assert caught.value.status == "deadlock"
    assert caught.value.result.status == "deadlock"
    assert caught.value.result.outputs.keys() == {"C"}
    assert caught.value.diagnostics == caught.value.result.diagnostics


def test_run_returns_when_asked(deadlock):
    result = tilesim.run(deadlock, on_hazard="return")
    assert result.status == "deadlock"
    assert {item.code for item in result.hazards} == {"TS-SYNC-001"}


def test_check_returns_what_it_finds(deadlock):
    found = tilesim.check(deadlock)
    assert {item.code for item in found} == {"TS-SYNC-001"}
    waiting = min(found, key=lambda item: item.line)
    assert (waiting.severity, waiting.file, waiting.line) == ("hazard", "kernels.py", 296)
    assert (waiting.function, waiting.block, waiting.warp) == ("main_kernel", 0, 0)
    assert str(waiting).startswith("kernels.py:296: hazard TS-SYNC-001: ")
    assert "in main_kernel, block 0, warp 0" in str(waiting)


def test_check_of_a_good_case_is_empty_and_writes_nothing(traces):
    out = np.zeros(5, np.float32)
    ones = np.ones(5, np.float32)
    schedules = ("eager", "lazy", "random:3")
    assert tilesim.check(traces / "add_dynamic_1000", ones, ones, out, schedules=schedules) == []
    assert not out.any()


def test_check_finds_what_a_run_does_not(traces):
    """Remarks need the checks; run has them on request."""
    case = traces / "transpose_swizzled"
    assert tilesim.check(case) == []
    codes = {item.code for item in tilesim.check(case, remarks=True)}
    assert codes and all(code.startswith("TS-PERF-") for code in codes)
    assert {item.code for item in tilesim.run(case, checks=True, remarks=True).diagnostics} == codes
    assert tilesim.run(case, remarks=True).diagnostics == ()


def test_check_merges_schedules(deadlock):
    with tilesim.open(deadlock) as case:
        assert len(case.check(schedules=("eager", "eager"))) == len(case.check())


def test_diagnostics_do_not_pile_up(deadlock):
    with tilesim.open(deadlock) as case:
        counts = [len(case.run(on_hazard="return").diagnostics) for _ in range(2)]
    assert counts[0] == counts[1] > 0


def test_source_lines(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text("first\n    second\n")
    fields = {"code": "TS-X-001", "title": "t", "severity": "hazard", "message": "m", "hint": "h"}
    item = tilesim.Diagnostic(**fields, file=str(kernel), line=2, other_file=str(kernel), other_line=1)
    assert (item.source, item.other_source) == ("second", "first")
    assert str(item).splitlines()[1:] == [
        "  | second",
        f"  {kernel}:1: the other access",
        "  | first",
        "  hint: h",
    ]
    assert tilesim.Diagnostic(**fields).source is None


# --- the fixture


def test_fixture_passes_and_writes(assert_no_hazards, traces):
    ones, out = np.ones(5, np.float32), np.zeros(5, np.float32)
    result = assert_no_hazards(traces / "add_dynamic_1000", ones, ones, out)
    assert result["C"] is out and out.tolist() == [2] * 5


def test_fixture_fails_the_test(pytester, deadlock):
    pytester.makepyfile(
        f"""
        def test_kernel(assert_no_hazards):
            assert_no_hazards({str(deadlock)!r}, schedules=("lazy",))
        """
    )
    outcome = pytester.runpytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*schedule lazy: the kernel deadlocked*", "*TS-SYNC-001*"])
