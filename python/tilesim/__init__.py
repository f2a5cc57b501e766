"""tilesim runs lowered tile kernels on the CPU, bit for bit as the device would.

    import tilesim

    result = tilesim.run("traces/gemm_seed")            # the case's own arguments
    c = tilesim.run("traces/gemm_seed", a, b)["C"]      # NumPy arrays or CPU torch tensors
    for diagnostic in tilesim.check("traces/gemm_seed", a, b):
        print(diagnostic)

tilesim.tilelang compiles TileLang kernels without a GPU and runs them."""

from ._case import Case, Fidelity, Parameter, Result, Statistics, check, open, run
from ._diagnostics import Diagnostic, Error, HazardError, InputError, UnsupportedError
from ._events import Event, event_table, events
from ._library import version

__all__ = [
    "Case",
    "Diagnostic",
    "Error",
    "Event",
    "Fidelity",
    "HazardError",
    "InputError",
    "Parameter",
    "Result",
    "Statistics",
    "UnsupportedError",
    "check",
    "event_table",
    "events",
    "open",
    "run",
    "version",
]
