"""TileLang kernels on the CPU: compile() and jit() as in tilelang, without a GPU or nvcc.

    kernel = tilesim.tilelang.compile(matmul, out_idx=-1)
    c = kernel(a, b)                                    # NumPy arrays or CPU torch tensors

A kernel is lowered by TileLang itself to the modules that it would hand to its code generator;
tilesim executes those. TileLang is needed only here."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._case import Case, Result
from ._diagnostics import Diagnostic

INSTALL_COMMAND = "pip install torch==2.13.0 tilelang==0.1.15"
DEFAULT_TARGET = "sm_90"
FAST_MATH = "tl.enable_fast_math"
FAST_MATH_FLAG = "--use_fast_math"


class Kernel:
    """A compiled kernel: call it with its inputs, in order, as one calls tilelang's."""

    def __init__(self, case: Case, out_idx: Sequence[int], source: str, scratch: object = None) -> None:
        self.case = case
        """The kernel as a case: parameters, IR, run() and check()."""
        self.out_idx = tuple(out_idx)
        case.parameters = tuple(
            dataclasses.replace(parameter, role="out") if index in self.out_idx else parameter
            for index, parameter in enumerate(case.parameters)
        )
        self.source = source
        """The CUDA source that TileLang makes of the kernel."""
        self._scratch = scratch  # the temporary folder lives as long as the kernel
        self._inputs = [parameter for index, parameter in enumerate(case.parameters) if index not in self.out_idx]

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Runs the kernel. Gives the output of out_idx, a list when there are several, else None.

        Options are those of tilesim.run. Raises HazardError when the kernel has a hazard."""
        outputs = self.run(*inputs, **options).outputs
        results = [outputs[self.case.parameters[index].name] for index in self.out_idx]
        return results[0] if len(results) == 1 else results or None

    def run(self, *inputs: Any, **options: Any) -> Result:
        """Runs the kernel and gives all that tilesim.run does."""
        return self.case.run(**self._bind(inputs), **options)

    def check(self, *inputs: Any, **options: Any) -> list[Diagnostic]:
        """Runs the kernel to see what is wrong with it; see tilesim.check."""
        return self.case.check(**self._bind(inputs), **options)

    def get_kernel_source(self) -> str:
        """The CUDA source, as tilelang names it."""
        return self.source

    def __repr__(self) -> str:
        return f"Kernel({self.case!r}, out_idx={list(self.out_idx)})"

    def _bind(self, inputs: Sequence[Any]) -> dict[str, Any]:
        if len(inputs) != len(self._inputs):
            names = ", ".join(parameter.name for parameter in self._inputs)
            raise ValueError(f"Kernel expected {len(self._inputs)} inputs ({names}), but {len(inputs)} are provided.")
        return {parameter.name: value for parameter, value in zip(self._inputs, inputs, strict=True)}


def compile(
    prim_func: Any,
    target: Any = DEFAULT_TARGET,
    out_idx: int | Sequence[int] | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    *,
    compile_flags: str | Sequence[str] | None = None,
    folder: str | Path | None = None,
    machine: str | None = None,
) -> Kernel:
    """Lowers a PrimFunc with TileLang and opens the outcome.

    target is an architecture ("sm_90"), "cuda" for the default one, or what TVM's Target takes.
    out_idx names the parameters that calls return instead of taking; pass_configs are TileLang's.
    folder keeps the case there, for the command line for example; otherwise it is temporary.
    machine is that of tilesim.Case."""
    _require_tilelang()
    attributes = dict(prim_func.attrs) if prim_func.attrs else {}
    config = {**_plain_keys(attributes.get("tilelang_pass_configs")), **_plain_keys(pass_configs)}
    flags = [*map(str, attributes.get("tilelang_compile_flags", ())), *_as_list(compile_flags)]
    stated_outputs = attributes.get("tilelang_out_idx")
    if stated_outputs is not None:
        if out_idx is not None:
            raise ValueError("out_idx is given, and the PrimFunc itself returns T.empty tensors")
        out_idx = [int(index) for index in stated_outputs]
    outputs = _normalize_out_idx(out_idx, len(prim_func.params))

    scratch = None if folder is not None else tempfile.TemporaryDirectory(prefix="tilesim-")
    place = Path(folder if scratch is None else scratch.name)
    source = _lower(prim_func, _make_target(target), config, place)
    fast_math = bool(config.get(FAST_MATH)) or any(FAST_MATH_FLAG in flag for flag in flags)
    return Kernel(Case(place, fast_math=fast_math, machine=machine), outputs, source, scratch)


class Jit:
    """What jit() makes of a function."""

    def __init__(self, implementation: Any, options: Mapping[str, Any]) -> None:
        self._implementation = implementation
        self._options = dict(options)
        self._kernels: dict[Any, Kernel] = {}
        functools.update_wrapper(self, implementation.func.orig_func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = self._implementation.initialize_jit_mode(*args, **kwargs)
        key, tensors = self._implementation.func.parse_args(*args, **kwargs)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = self.compile(*args, **kwargs)
        return kernel(*tensors.values()) if mode == "eager" else kernel

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel for these arguments."""
        return compile(self._implementation.get_tir(*args, **kwargs), **self._options)


def jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """As tilelang.jit: a function that returns a PrimFunc becomes one that returns a Kernel, and a
    function that is a kernel itself becomes one that runs on tensors. Options are compile()'s."""
    tilelang = _require_tilelang()

    def decorate(function: Callable[..., Any]) -> Jit:
        target = _make_target(options.get("target", DEFAULT_TARGET))
        return Jit(tilelang.jit(target=target)(function), options)

    return decorate if func is None else decorate(func)


# --- lowering


def _require_tilelang() -> Any:
    try:
        import tilelang
    except ImportError as error:
        raise ImportError(f"tilesim.tilelang needs TileLang: {INSTALL_COMMAND}") from error
    return tilelang


def _make_target(target: Any) -> Any:
    from tvm.target import Target

    if isinstance(target, str) and target == "cuda":
        target = DEFAULT_TARGET
    if isinstance(target, str) and target.startswith("sm_"):
        target = {"kind": "cuda", "arch": target}
    return target if isinstance(target, Target) else Target(target)


def _lower(prim_func: Any, target: Any, config: Mapping[str, Any], folder: Path) -> str:
    """Writes device.json and host.json, and returns the CUDA source."""
    from tilelang import tvm
    from tilelang.engine import lower

    with target, tvm.transform.PassContext(opt_level=3, config=dict(config)):
        artifact = lower(prim_func, target=target, enable_device_compile=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "device.json").write_text(tvm.ir.save_json(artifact.device_mod), encoding="utf-8")
    (folder / "host.json").write_text(tvm.ir.save_json(artifact.host_mod), encoding="utf-8")
    return str(artifact.kernel_source)


def _plain_keys(config: Mapping[Any, Any] | None) -> dict[str, Any]:
    """TileLang's PassConfigKey members become their text."""
    return {str(getattr(key, "value", key)): value for key, value in dict(config or {}).items()}


def _as_list(flags: str | Sequence[str] | None) -> list[str]:
    return [flags] if isinstance(flags, str) else list(flags or ())


def _normalize_out_idx(out_idx: int | Sequence[int] | None, count: int) -> list[int]:
    """Indices from 0; negative ones count from the end."""
    wanted = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else list(out_idx)
    for index in wanted:
        if not -count <= index < count:
            raise ValueError(f"out_idx {index} is out of range for a function with {count} parameters")
    positive = [index % count for index in wanted]
    if len(set(positive)) != len(positive):
        raise ValueError(f"out_idx {wanted} names a parameter twice")
    return positive
