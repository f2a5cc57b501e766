"""TileLang's own kernels, lowered by the real package, against torch and NumPy."""

import json
import os

import numpy as np
import pytest

if os.environ.get("TILESIM_WITH_TILELANG"):
    import tilelang  # installed for these tests: not being able to import it is a failure
else:
    hint = "TileLang is not installed: pip install torch==2.13.0 tilelang==0.1.15, or TILESIM_WITH_TILELANG=1"
    tilelang = pytest.importorskip("tilelang", reason=hint)

import tilelang.language as T
import torch

import kernels
import tilesim
from tilesim import tilelang as bridge

pytestmark = pytest.mark.integration


def random(*shape, dtype="float32", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(getattr(torch, dtype))


@pytest.mark.parametrize("target", ["sm_90", "sm_80"])
@pytest.mark.parametrize(
    ("dtype", "out", "bound"),
    [
        ("float16", "float32", 2**-20),
        ("float16", "float16", 2**-10),
        ("bfloat16", "float32", 2**-20),
        ("bfloat16", "bfloat16", 2**-8),
        ("float8_e4m3fn", "float32", 2**-11),  # Hopper sums fp8 products with few bits
        ("float8_e5m2", "float32", 2**-11),
    ],
)
def test_gemm(dtype, out, bound, target, assert_no_hazards):
    if "float8" in dtype:
        target = target.replace("sm_80", "sm_89")
    m, n, k = 128, 192, 96
    transposed = "float8" in dtype
    function = kernels.gemm_relu(m, n, k, dtype=dtype, out=out, transposed=transposed)
    kernel = bridge.compile(function, target=target, out_idx=-1)
    a, b = random(m, k, dtype=dtype), random(*((n, k) if transposed else (k, n)), dtype=dtype, seed=1)
    c = kernel(a, b)
    assert isinstance(c, torch.Tensor) and c.dtype == getattr(torch, out)
    wide = b.double().T if transposed else b.double()
    error = (c.double() - (a.double() @ wide).clamp(min=0)).abs()
    assert (error <= bound * (a.double().abs() @ wide.abs())).all()
    assert torch.equal(assert_no_hazards(kernel.case, a, b)["C"], c)


def test_gemm_is_the_device_bit_for_bit(traces, golden):
    """The kernel of a recorded case, on that case's inputs."""
    case = traces / "gemm_64x64x32_s2"
    kernel = bridge.compile(kernels.gemm_relu(512, 512, 512), out_idx=-1)
    tensors = json.loads((case / "launch.json").read_text())["tensors"]
    inputs = [f"init:{item['init']}:{item['seed']}" for item in tensors if item["role"] == "in"]
    result = kernel.run(*inputs)
    assert result.sha256["C"] == golden["gemm_64x64x32_s2", "C"] == tilesim.run(case).sha256["C"]


def test_none_is_a_tensor_that_is_not_there():
    a = random(128)
    assert torch.equal(bridge.compile(kernels.scale_or_add(False), out_idx=-1)(a, None), 2 * a)
    kernel = bridge.compile(kernels.scale_or_add(True), out_idx=-1)
    assert torch.equal(kernel(a, a), 2 * a)
    with pytest.raises(tilesim.InputError, match=r"main\.Bias is expected to have non-NULL pointer"):
        kernel(a, None)


def test_gemm_equals_the_recorded_case_on_any_input(traces):
    kernel = bridge.compile(kernels.gemm_relu(512, 512, 512), out_idx=-1)
    a, b = random(512, 512, dtype="float16").numpy(), random(512, 512, dtype="float16", seed=1).numpy()
    np.testing.assert_array_equal(kernel(a, b), tilesim.run(traces / "gemm_64x64x32_s2", a, b)["C"])


def test_dynamic_shape():
    kernel = bridge.compile(kernels.gemm_dynamic(), out_idx=[2])
    assert kernel.case.parameter("C").shape == ("m", 128)
    b = random(64, 128, dtype="float16", seed=1).numpy()
    for m in (1, 64, 100):
        a = random(m, 64, dtype="float16").numpy()
        c = kernel(a, b)
        assert isinstance(c, np.ndarray) and c.shape == (m, 128)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)
    with pytest.raises(tilesim.InputError, match="TS-HOST-001"):
        kernel(np.zeros((5, 63), np.float16), b)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax(dtype):
    x = random(64, 256, dtype=dtype)
    y = bridge.compile(kernels.softmax(dtype=dtype), out_idx=1)(x)
    assert y.dtype == x.dtype
    torch.testing.assert_close(y.double(), x.double().softmax(-1), atol=1e-6 if dtype == "float32" else 5e-4, rtol=0)


# --- the calling convention


def test_out_idx():
    function = kernels.sum_and_difference(200)
    a, b = random(200), random(200, seed=1)
    total, difference = bridge.compile(function, out_idx=[0, -2])(a, b)
    assert torch.equal(total, a + b) and torch.equal(difference, a - b)
    difference, total = bridge.compile(function, out_idx=[2, 0])(a, b)
    assert torch.equal(total, a + b) and torch.equal(difference, a - b)


def test_without_out_idx_arguments_are_written_in_place():
    kernel = bridge.compile(kernels.sum_and_difference(200))
    a, b = random(200), random(200, seed=1)
    total, difference = torch.zeros(200), torch.zeros(200)
    assert kernel(total, a, difference, b) is None
    assert torch.equal(total, a + b) and torch.equal(difference, a - b)


def test_in_place_into_part_of_a_tensor():
    kernel = bridge.compile(kernels.accumulate())
    table = torch.zeros(3, 128, dtype=torch.float32)
    kernel(torch.ones(128), table[1])
    kernel(torch.ones(128), table[1])
    assert table.sum(1).tolist() == [0, 256, 0]


def test_bad_calls():
    function = kernels.sum_and_difference(200)
    kernel = bridge.compile(function, out_idx=[0, 2])
    with pytest.raises(ValueError, match=r"expected 2 inputs \(A, B\), but 1 are provided"):
        kernel(random(200))
    with pytest.raises(ValueError, match="out of range"):
        bridge.compile(function, out_idx=4)
    with pytest.raises(ValueError, match="twice"):
        bridge.compile(function, out_idx=[0, -4])
    with pytest.raises(TypeError, match="on meta"):
        kernel(torch.empty(200, device="meta"), random(200))
    with pytest.raises(tilesim.InputError, match="dtype mismatch"):
        kernel(random(200).half(), random(200))
    with pytest.raises(tilesim.InputError, match="TS-HOST-001"):  # not compact, as on a GPU
        kernel(random(400)[::2], random(200))


def test_scalar_parameter():
    kernel = bridge.compile(kernels.scale(), out_idx=-1)
    x = random(256)
    assert torch.equal(kernel(x, 0.5), x * 0.5)
    assert torch.equal(kernel(x, 3), x * 3)
    kernel = bridge.compile(kernels.iota(), out_idx=-1)
    assert kernel(300, -(2**40)).tolist() == [2 * i - 2**40 for i in range(300)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32"])
def test_outputs_of_every_type(dtype):
    """Torch and ml_dtypes arrays give the same bits, which are torch's own rounding."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kernel = bridge.compile(kernels.scale(to=dtype), out_idx=-1)
    x = random(256) * 10
    from_torch, from_numpy = kernel(x, 1.0), kernel(x.numpy(), 1.0)
    assert from_torch.dtype == getattr(torch, dtype)
    assert from_numpy.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    expected = x.to(getattr(torch, dtype))
    assert torch.equal(from_torch.view(torch.int8), expected.view(torch.int8))
    assert from_numpy.tobytes() == expected.view(torch.int8).numpy().tobytes()


def test_gradients_and_inference_tensors_are_only_read():
    kernel = bridge.compile(kernels.scale(), out_idx=-1)
    x = random(256).requires_grad_()
    assert torch.equal(kernel(x, 1.0), x.detach())
    with torch.inference_mode():
        assert torch.equal(kernel(x * 1, 1.0), x)


# --- compilation


def test_pass_configs_reach_tilelang():
    function = kernels.gemm_relu(128, 128, 64)
    plain = bridge.compile(function)
    config = {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
    simple = bridge.compile(function, pass_configs=config)
    assert "setmaxnreg" in plain.case.ir and "setmaxnreg" not in simple.case.ir


def test_fast_math():
    x = random(64, 256)
    precise = bridge.compile(kernels.softmax(), out_idx=1)(x)
    config = {"tl.enable_fast_math": True}
    fast = [
        bridge.compile(kernels.softmax(), out_idx=1, pass_configs=config)(x),
        bridge.compile(kernels.softmax(), out_idx=1, compile_flags="--use_fast_math")(x),
    ]
    for values in fast:
        assert not torch.equal(values, precise)
        torch.testing.assert_close(values, precise)


def test_folder_is_a_case(tmp_path):
    kernel = bridge.compile(kernels.scale(), folder=tmp_path / "scale")
    assert "__global__" in kernel.get_kernel_source()
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    tilesim.run(tmp_path / "scale", x, 2.0, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_temporary_folder_goes_with_the_kernel():
    kernel = bridge.compile(kernels.scale())
    folder = kernel.case.folder
    assert folder.is_dir()
    del kernel
    assert not folder.exists()


def test_jit_of_a_factory():
    @bridge.jit(out_idx=[0, 2])
    def build(n, dtype="float32"):
        return kernels.sum_and_difference(n, dtype)

    assert build(100) is build(100) and build(100) is not build(200)
    a = random(100)
    assert torch.equal(build(100)(a, a)[0], 2 * a)


def test_jit_of_a_kernel():
    @bridge.jit
    def add(A, B, block: int = 64):
        n = T.const("n")
        A: T.Tensor[[n], T.float32]
        B: T.Tensor[[n], T.float32]
        C = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block), threads=block) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
        return C

    for n in (100, 77):
        a = random(n)
        assert torch.equal(add(a, a), 2 * a)


# --- faults of the kernel


def test_hazard_names_the_line():
    kernel = bridge.compile(kernels.waits_for_ever(), out_idx=-1)
    with pytest.raises(tilesim.HazardError) as caught:
        kernel(random(128))
    assert caught.value.status == "deadlock"
    (found,) = {item.source for item in kernel.check(random(128))}
    assert found.endswith("# the line to blame")
    assert found in str(caught.value)
