"""pytest fixture: kernels that must be free of hazards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._case import Result

SCHEDULES = ("lazy", "random:1", "eager")


def _assert_no_hazards(case: Any, *arrays: Any, schedules: Sequence[str] = SCHEDULES, **options: Any) -> Result:
    """Runs case under each schedule, the first one with all checks, and fails the test at a hazard
    or when the bits differ.

    case and arguments are those of tilesim.run; the last schedule's result is given back, and only
    its outputs are written to the arrays."""
    import tilesim

    hashes: dict[str, dict[str, str]] = {}
    for number, schedule in enumerate(schedules, 1):
        write_back = number == len(schedules)
        try:
            result = tilesim.run(case, *arrays, schedule=schedule, write_back=write_back, checks=number == 1, **options)
        except tilesim.HazardError as error:
            pytest.fail(f"schedule {schedule}: {error}", pytrace=False)
        hashes[schedule] = result.sha256
    first, *others = hashes
    for other in others:
        different = [name for name in hashes[first] if hashes[first][name] != hashes[other][name]]
        if different:
            names = ", ".join(different)
            pytest.fail(f"schedules {first} and {other} give different bits in {names}", pytrace=False)
    return result


@pytest.fixture
def assert_no_hazards() -> Callable[..., Result]:
    """assert_no_hazards(case, *arrays): the run's Result, or a failed test with the diagnostics."""
    return _assert_no_hazards
