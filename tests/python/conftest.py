"""What the tests share."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def traces() -> Path:
    """Cases of the whole project."""
    return ROOT / "traces"


@pytest.fixture(scope="session")
def cases() -> Path:
    """Cases of these tests."""
    return Path(__file__).parent / "cases"


@pytest.fixture(scope="session")
def golden(traces: Path) -> dict[tuple[str, str], str]:
    """Hashes of the H200's outputs by case and output."""
    rows = [line.split("\t") for line in (traces / "golden.tsv").read_text().splitlines()[1:]]
    return {(row[0], row[1]): row[2] for row in rows}
