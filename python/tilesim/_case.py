"""Cases: opening, arguments, running, results."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import _arrays, _library
from ._diagnostics import Diagnostic, HazardError, make_diagnostic, make_error

RUN_STATUSES = ("ok", "hazard", "deadlock", "trap")  # after these there are outputs
NULL = object()  # inside: the argument None, a tensor that is not there


@dataclass(frozen=True)
class _RunOptions:
    """What run() hands on, apart from arguments."""

    schedule: str
    workers: int | None
    events: str | os.PathLike[str] | None
    write_back: bool
    checks: bool
    numeric: bool
    remarks: bool
    progress: Callable[[int, int], object] | None


@dataclass(frozen=True)
class Parameter:
    """A parameter of the host function."""

    name: str
    is_tensor: bool
    dtype: str
    """"f16", "bf16", "f32", "e4m3", "s32", ..."""
    role: str
    """"in", "out" or "inout"."""
    shape: tuple[int | str | None, ...] = ()
    """Extents; a text is a run-time symbol, None an extent that only the host function knows."""
    has_default: bool = False
    """Whether the folder's launch.json states an argument."""
    default_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fidelity:
    """How well the results of a kind of instruction are known to agree with the hardware."""

    what: str
    level: str
    """"exact", "modelled" or "unknown"."""
    source: str
    insn_count: int


@dataclass(frozen=True)
class Statistics:
    """What a run executed."""

    launches: int
    blocks: int
    warps: int
    warp_insns: int
    lane_ops: int
    matrix_macs: int
    tma_boxes: int
    tma_bytes: int
    tensor_bytes: int
    ops: Mapping[str, int] = field(default_factory=dict)
    """How often warps executed each operation."""


@dataclass(frozen=True)
class Result:
    """What a run left behind."""

    status: str
    """"ok", "hazard", "deadlock" or "trap"."""
    outputs: Mapping[str, Any]
    """Tensors of role out and inout: the arrays that were passed, else new ones."""
    diagnostics: tuple[Diagnostic, ...]
    statistics: Statistics
    fidelity: tuple[Fidelity, ...]

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]

    @property
    def hazards(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are faults of the kernel."""
        return tuple(item for item in self.diagnostics if item.severity == "hazard")

    @property
    def sha256(self) -> dict[str, str]:
        """Hash of each output's elements, compact, little-endian, as `tilesim run --hash` prints it."""
        return {name: _sha256(value) for name, value in self.outputs.items()}


def _default(parameter: Parameter) -> str | None:
    """Outputs need no argument: they start with the bytes that the command line gives them."""
    return "init:fill:A5" if parameter.role == "out" and not parameter.has_default else None


def _c_progress(progress: Callable[[int, int], object] | None, errors: list[BaseException]) -> Any:
    """progress for the library. What it raises goes to errors: it must not pass through C."""
    if progress is None:
        return _library.Progress()

    def call(_: object, done_blocks: int, all_blocks: int) -> None:
        try:
            if not errors:
                progress(done_blocks, all_blocks)
        except BaseException as error:
            errors.append(error)

    return _library.Progress(call)


def _sha256(value: Any) -> str:
    _, carrier = _arrays._torch_carrier("", value) if _arrays.is_torch(value) else ("", value)
    return hashlib.sha256(np.ascontiguousarray(carrier).view(np.uint8)).hexdigest()


class Case:
    """An open case folder. A context manager; use one case from one thread at a time."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        machine: str | os.PathLike[str] | None = None,
        fast_math: bool | None = None,
        memory_limit_bytes: int = 0,
    ) -> None:
        """Opens a folder with device.json and host.json.

        machine names a machine (default: "h200-sxm") or a .mach file. fast_math says whether nvcc
        was told --use_fast_math; None takes it from launch.json. memory_limit_bytes refuses runs
        whose tensors need more; 0 is three quarters of the host's memory."""
        self._library = _library.library()
        self._sim = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._arguments: dict[str, Any] = {}
        self.folder = Path(folder)
        self.parameters: tuple[Parameter, ...] = ()
        if self._library.ts_sim_create(None, ctypes.byref(self._sim)):
            raise MemoryError("no memory for a simulation")
        try:
            self._library.ts_sim_set_memory_limit(self._sim, memory_limit_bytes)
            if machine is not None:
                shipped = _library.HERE / "machines"
                directory = os.fsencode(shipped) if shipped.is_dir() else None
                self._check(self._library.ts_sim_set_machine(self._sim, directory, os.fsencode(machine)))
            mode = 0 if fast_math is None else 2 if fast_math else 1
            self._check(self._library.ts_sim_open(self._sim, os.fsencode(self.folder), mode))
            self.parameters = tuple(self._read_parameters())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees the simulation. Results stay valid."""
        if self._sim:
            self._library.ts_sim_free(self._sim)
            self._sim = ctypes.c_void_p()

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_sim", None):
            self.close()

    def __repr__(self) -> str:
        return f"Case({str(self.folder)!r}, parameters={[item.name for item in self.parameters]})"

    @property
    def ir(self) -> str:
        """The case's IR in text form."""
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self._library.ts_sim_ir(self._handle(), ctypes.byref(text), ctypes.byref(size)))
        return ctypes.string_at(text.value or 0, size.value).decode()

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name. Raises KeyError."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        known = ", ".join(item.name for item in self.parameters)
        raise KeyError(f"the host function has no parameter {name!r}; it has {known}")

    def set(self, name: str, value: Any) -> None:
        """Sets the argument of later runs, until it is replaced; None takes it away again.

        value is an array (read and, for outputs, written by each run), a number, or a text as the
        command line's --arg takes it: "FILE.npy" or "init:MODE[:SEED][@AxB..]"."""
        self.parameter(name)
        if value is None:
            self._arguments.pop(name, None)
        else:
            self._arguments[name] = value

    def run(
        self,
        *arrays: Any,
        schedule: str = "eager",
        workers: int | None = None,
        events: str | os.PathLike[str] | None = None,
        on_hazard: Literal["raise", "return"] = "raise",
        write_back: bool = True,
        checks: bool = False,
        numeric: bool = False,
        remarks: bool = False,
        progress: Callable[[int, int], object] | None = None,
        **named: Any,
    ) -> Result:
        """Runs the case; see tilesim.run. Arguments not given here are those of set()."""
        given = {name: NULL if value is None else value for name, value in self.bind(arrays, named).items()}
        options = _RunOptions(schedule, workers, events, write_back, checks, numeric, remarks, progress)
        with self._lock:
            result = self._run({**self._arguments, **given}, options)
        if result.status != "ok" and on_hazard == "raise":
            error = make_error(_library.RESULTS.index(result.status), result.diagnostics)
            assert isinstance(error, HazardError)
            error.result = result
            raise error
        return result

    def check(self, *arrays: Any, schedules: Sequence[str] = ("eager",), **options: Any) -> list[Diagnostic]:
        """Runs the case with all checks under each schedule; see tilesim.check."""
        found: dict[Diagnostic, None] = {}
        for schedule in schedules:
            result = self.run(*arrays, schedule=schedule, checks=True, on_hazard="return", write_back=False, **options)
            found.update(dict.fromkeys(result.diagnostics))
        return list(found)

    def bind(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Gives positional arguments to the parameters in order: to all, or to all but the outputs."""
        for name in named:
            try:
                self.parameter(name)
            except KeyError as error:
                raise TypeError(error.args[0]) from None
        if not arrays:
            return dict(named)
        free = [item for item in self.parameters if item.name not in named]
        inputs = [item for item in free if item.role != "out"]
        targets = free if len(arrays) == len(free) else inputs
        if len(arrays) != len(targets):
            wanted = f"{len(inputs)} or {len(free)}" if len(inputs) != len(free) else f"{len(free)}"
            listed = ", ".join(f"{item.name} ({item.role})" for item in free)
            raise TypeError(f"expected {wanted} positional arguments, found {len(arrays)}; free are {listed}")
        return {**named, **{target.name: value for target, value in zip(targets, arrays, strict=True)}}

    # --- inside

    def _handle(self) -> ctypes.c_void_p:
        if not self._sim:
            raise ValueError("the case is closed")
        return self._sim

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """Takes what has gathered."""
        record = _library.CDiagnostic()
        items = []
        for index in range(self._library.ts_sim_diagnostic_count(self._sim)):
            self._library.ts_sim_diagnostic(self._sim, index, ctypes.byref(record))
            items.append(make_diagnostic(record))
        self._library.ts_sim_clear_diagnostics(self._sim)
        return tuple(items)

    def _check(self, status: int) -> None:
        if status:
            raise make_error(status, self._diagnostics())

    def _read_parameters(self) -> Iterable[Parameter]:
        record = _library.CParameter()
        for index in range(self._library.ts_sim_parameter_count(self._sim)):
            self._library.ts_sim_parameter(self._sim, index, ctypes.byref(record))
            rank = record.rank if record.is_tensor else 0
            yield Parameter(
                name=record.name.decode(),
                is_tensor=bool(record.is_tensor),
                dtype=record.dtype.decode(),
                role=_library.ROLES[record.role] if record.is_tensor else "in",
                shape=tuple(
                    record.shape[d] if record.shape[d] >= 0 else _library.text(record.symbols[d]) for d in range(rank)
                ),
                has_default=bool(record.has_default),
                default_shape=tuple(record.default_shape[:rank]) if record.default_shape else None,
            )

    def _run(self, arguments: Mapping[str, Any], options: _RunOptions) -> Result:
        errors: list[BaseException] = []
        settings = _library.CRunSettings(
            schedule=options.schedule.encode(),
            worker_count=options.workers or len(os.sched_getaffinity(0)),
            events_path=os.fsencode(options.events) if options.events is not None else None,
            checks=options.checks,
            check_numbers=options.numeric,
            check_speed=options.remarks,
            progress=_c_progress(options.progress, errors),
        )
        sim = self._handle()
        bound: dict[str, _arrays.Argument] = {}
        self._library.ts_sim_clear_diagnostics(sim)
        try:
            for parameter in self.parameters:
                value = arguments.get(parameter.name, _default(parameter))
                if value is not None:
                    self._set_argument(parameter, value, options.write_back, bound)
            status = self._library.ts_sim_run(sim, ctypes.byref(settings))
        finally:
            self._library.ts_sim_clear_arguments(sim)
        if errors:
            raise errors[0]
        if _library.RESULTS[status] not in RUN_STATUSES:
            raise make_error(status, self._diagnostics())
        outputs = self._outputs(bound, options.write_back)
        return Result(_library.RESULTS[status], outputs, self._diagnostics(), self._statistics(), self._fidelity())

    def _set_argument(
        self, parameter: Parameter, value: Any, write_back: bool, bound: dict[str, _arrays.Argument]
    ) -> None:
        name = parameter.name.encode()
        if value is NULL:
            self._check(self._library.ts_sim_set_null(self._sim, name))
        elif isinstance(value, (str, os.PathLike)):
            self._check(self._library.ts_sim_set_text(self._sim, name, os.fsencode(value)))
        elif parameter.is_tensor and _arrays.is_array(value):
            argument = _arrays.wrap(parameter.name, value, parameter.dtype)
            if parameter.role != "in" and write_back and not argument.carrier.flags.writeable:
                raise ValueError(f"{parameter.name} is an output, and the array is read-only")
            self._check(self._library.ts_sim_set_tensor(self._sim, name, argument.to_c()))
            bound[parameter.name] = argument
        elif parameter.is_tensor:
            kind = type(value).__name__
            raise TypeError(f"{parameter.name}: expected a NumPy array or a torch tensor, found {kind}")
        elif isinstance(value, (float, np.floating)):
            self._check(self._library.ts_sim_set_float(self._sim, name, float(value)))
        else:
            self._check(self._library.ts_sim_set_int(self._sim, name, int(value)))

    def _outputs(self, bound: Mapping[str, _arrays.Argument], write_back: bool) -> dict[str, Any]:
        """Arrays that were passed are written in place; others are made, as torch tensors when the
        arguments were."""
        make = _arrays.to_numpy
        if any(_arrays.is_torch(argument.owner) for argument in bound.values()):
            make = _arrays.to_torch
        outputs = {}
        for parameter in self.parameters:
            if not parameter.is_tensor or parameter.role == "in":
                continue
            tensor = _library.CTensor()
            self._check(self._library.ts_sim_tensor(self._sim, parameter.name.encode(), ctypes.byref(tensor)))
            if not tensor.data and not tensor.rank:
                continue  # it was None
            dtype, carrier = _arrays.view(tensor)
            argument = bound.get(parameter.name)
            if argument is None or not write_back:
                outputs[parameter.name] = make(dtype, carrier)
            else:
                np.copyto(argument.carrier, carrier)
                outputs[parameter.name] = argument.owner
        return outputs

    def _statistics(self) -> Statistics:
        record = _library.CStatistics()
        self._library.ts_sim_statistics(self._sim, ctypes.byref(record))
        counts = {
            mnemonic: count
            for op, mnemonic in enumerate(_library.mnemonics())
            if (count := self._library.ts_sim_op_executed(self._sim, op))
        }
        values = {name: getattr(record, name) for name, _ in _library.CStatistics._fields_}
        return Statistics(**values, ops=counts)

    def _fidelity(self) -> tuple[Fidelity, ...]:
        record = _library.CFidelity()
        rows = []
        for index in range(self._library.ts_sim_fidelity_count(self._sim)):
            if self._library.ts_sim_fidelity(self._sim, index, ctypes.byref(record)):
                continue
            texts = (_library.text(value) or "" for value in (record.what, record.level, record.source))
            rows.append(Fidelity(*texts, record.insn_count))
        return tuple(rows)


def open(
    folder: str | os.PathLike[str],
    *,
    machine: str | os.PathLike[str] | None = None,
    fast_math: bool | None = None,
    memory_limit_bytes: int = 0,
) -> Case:
    """Opens a case folder; the arguments are those of Case."""
    return Case(folder, machine=machine, fast_math=fast_math, memory_limit_bytes=memory_limit_bytes)


def _call(case: Any, method: str, arrays: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """case.method(), where case may be a folder or anything with a case inside, such as a kernel."""
    case = getattr(case, "case", case)
    if isinstance(case, Case):
        return getattr(case, method)(*arrays, **options)
    opening = {name: options[name] for name in ("machine", "fast_math") if name in options}
    rest = {name: value for name, value in options.items() if name not in opening}
    with Case(case, **opening) as opened:
        return getattr(opened, method)(*arrays, **rest)


def run(case: Any, *arrays: Any, **options: Any) -> Result:
    """Runs a case and gives its results.

    case is a folder, an open Case or a compiled kernel. Arguments are NumPy arrays, CPU torch
    tensors, numbers or texts ("FILE.npy", "init:uniform:7"), by position or by the parameter's
    name; those left out are what launch.json states. Positional ones go to all parameters, or to
    all that are not outputs. Output arrays that are passed are written in place; the others are
    made. All are in the result's `outputs`. None is an optional tensor that is not there.

    Options: schedule ("eager", "lazy", "random:SEED", "last:WARP", "explore:N"), workers (host
    threads), events (event file to write), on_hazard ("raise" a HazardError, or "return"),
    write_back (False: leave the arrays that were passed alone), checks (True: all hazard checks, on
    one thread, several times slower), with them numeric (NaNs that are born) and remarks
    (performance); progress (called now and then with blocks done and all blocks; what it raises is
    raised when the run has ended); for folders also machine and fast_math (see Case). A parameter
    with the name of an option is passed by position.

    Raises InputError, UnsupportedError, HazardError or another Error."""
    return _call(case, "run", arrays, options)


def check(case: Any, *arrays: Any, **options: Any) -> list[Diagnostic]:
    """Runs a case with all checks to see what is wrong with it: a list of hazards and remarks.

    Arguments and options as for run(), but no array is written. `schedules` lists the legal orders
    to try (default: only "eager"). Raises for bad input, never for a hazard."""
    return _call(case, "check", arrays, options)
