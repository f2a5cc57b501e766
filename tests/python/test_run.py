"""Running case folders on NumPy arrays."""

import numpy as np
import pytest

import tilesim

CAST_HASH = "ea1e0083b0fb0e118468e313ee07e83ac04277fc5393622bd669214c4010c51e"
ADD_BF16_HASH = "a78f30de92034bf4c4563d5c9645b4fe0d6a7abcb397b34d3aa1436e283baa38"


@pytest.fixture
def add(traces):
    """C = A * B + A with a run-time extent n."""
    return traces / "add_dynamic_1000"


def bf16(values: np.ndarray) -> np.ndarray:
    """Encodings of float32 values that bf16 holds exactly."""
    bits = values.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


@pytest.mark.parametrize("case", ["gemm_64x64x32_s2", "gemm_seed_sm80", "add_f32_ragged", "transpose_swizzled"])
def test_own_arguments_give_the_hash_of_the_device(traces, golden, case):
    result = tilesim.run(traces / case)
    assert result.status == "ok" and not result.hazards
    assert result.sha256 == {name: value for (owner, name), value in golden.items() if owner == case}


def test_arrays_by_position_and_by_name(add):
    a, b = np.arange(77, dtype=np.float32), np.full(77, 2, np.float32)
    for result in (tilesim.run(add, a, b), tilesim.run(add, a, B=b), tilesim.run(str(add), B=b, A=a)):
        np.testing.assert_array_equal(result["C"], 3 * a)


def test_output_is_written_in_place_and_is_the_same_object(add):
    a, c = np.ones(5, np.float32), np.zeros(5, np.float32)
    result = tilesim.run(add, a, a, c)
    assert result["C"] is c
    np.testing.assert_array_equal(c, np.full(5, 2, np.float32))


def test_output_that_is_left_out_is_fresh(add):
    a = np.ones(5, np.float32)
    with tilesim.open(add) as case:
        first = case.run(a, a)["C"]
        second = case.run(2 * a, a)["C"]
    np.testing.assert_array_equal(first, np.full(5, 2, np.float32))
    np.testing.assert_array_equal(second, np.full(5, 4, np.float32))


def test_write_back_can_be_declined(add):
    a, c = np.ones(5, np.float32), np.zeros(5, np.float32)
    result = tilesim.run(add, a, a, c, write_back=False)
    assert not c.any() and result["C"].tolist() == [2] * 5


def test_one_call_does_not_leak_arguments_into_the_next(add):
    with tilesim.open(add) as case:
        own = case.run().sha256
        case.run(np.ones(1000, np.float32), np.ones(1000, np.float32))
        assert case.run().sha256 == own


def test_set_keeps_an_argument(add):
    with tilesim.open(add) as case:
        case.set("A", "init:const:3")
        case.set("B", np.full(9, 2, np.float32))
        assert case.run()["C"].tolist() == [9] * 9
        assert case.run(B=np.ones(4, np.float32))["C"].tolist() == [6] * 4
        case.set("B", None)
        assert case.run()["C"].shape == (1000,)
        with pytest.raises(KeyError, match="no parameter 'D'; it has A, B, C"):
            case.set("D", 1)


def test_text_arguments(add, tmp_path):
    np.save(tmp_path / "a.npy", np.full(6, 4, np.float32))
    assert tilesim.run(add, tmp_path / "a.npy", "init:const:1")["C"].tolist() == [8] * 6
    assert tilesim.run(add, "init:const:1@3", "init:const:1")["C"].tolist() == [2] * 3


def test_none_is_a_null_tensor(cases):
    """C = 2 A; Bias is never used."""
    a = np.arange(128, dtype=np.float32)
    with tilesim.open(cases / "optional_bias") as case:
        np.testing.assert_array_equal(case.run(a, None)["C"], 2 * a)
        np.testing.assert_array_equal(case.run(A=a, Bias=None)["C"], 2 * a)
        with pytest.raises(tilesim.InputError, match=r"main\.A is expected to have non-NULL pointer"):
            case.run(None, a)
        with pytest.raises(tilesim.InputError, match="no argument for tensor Bias"):
            case.run(A=a)


def test_progress_counts_blocks(traces):
    seen = []
    tilesim.run(traces / "gemm_64x64x32_s2", workers=1, progress=lambda done, count: seen.append((done, count)))
    assert seen and seen == sorted(set(seen))
    assert {count for _, count in seen} == {64} and seen[-1][0] <= 64


def test_what_progress_raises_is_raised_and_nothing_is_written(add):
    def stop(done, count):
        raise KeyboardInterrupt(f"{done} of {count}")

    out = np.zeros(5, np.float32)
    with tilesim.open(add) as case:
        with pytest.raises(KeyboardInterrupt, match="1 of 1"):
            case.run(np.ones(5, np.float32), np.ones(5, np.float32), out, progress=stop)
        assert not out.any()
        assert case.run(np.ones(5, np.float32), np.ones(5, np.float32))["C"].tolist() == [2] * 5


def test_schedules_and_workers_do_not_change_bits(traces):
    case = traces / "gemm_64x64x32_s2"
    runs = [{"workers": 1}, {"workers": 3}, {"schedule": "lazy"}, {"schedule": "random:7"}]
    assert len({tilesim.run(case, **options).sha256["C"] for options in runs}) == 1


def test_parameters(add):
    with tilesim.open(add) as case:
        assert [item.name for item in case.parameters] == ["A", "B", "C"]
        a, c = case.parameter("A"), case.parameter("C")
        assert (a.dtype, a.role, a.shape, a.default_shape) == ("f32", "in", ("n",), (1000,))
        assert (c.role, c.is_tensor, c.has_default) == ("out", True, True)


def test_ir_statistics_and_fidelity(traces):
    with tilesim.open(traces / "gemm_64x64x32_s2") as case:
        assert "wgmma" in case.ir
        result = case.run()
    assert result.statistics.launches == 1 and result.statistics.blocks == 64
    assert result.statistics.matrix_macs == 512**3
    assert result.statistics.ops["tma.load"] > 0
    assert any("wgmma" in row.what and row.level == "exact" for row in result.fidelity)


def test_strided_output_keeps_its_gaps(traces):
    """transpose: the host function wants compact tensors, and its refusal is the caller's error."""
    with tilesim.open(traces / "transpose_swizzled") as case:
        source, target = case.parameters
        a = np.ones(source.shape, np.float16)
        out = np.zeros((target.shape[0], 2 * target.shape[1]), np.float16)[:, ::2]
        with pytest.raises(tilesim.InputError, match="TS-HOST-001"):
            case.run(a, out)


def test_bf16_as_uint16(cases):
    case = cases / "add_bf16_staged"
    assert tilesim.run(case).sha256 == {"C": ADD_BF16_HASH}
    with tilesim.open(case) as opened:
        shape = opened.parameter("A").shape
    out = np.zeros(shape, np.uint16)
    tilesim.run(case, bf16(np.full(shape, 1.5)), bf16(np.full(shape, -4.0)), out)
    np.testing.assert_array_equal(out, bf16(np.full(shape, -2.5)))


def test_bf16_output_without_an_array_has_two_bytes(cases):
    out = tilesim.run(cases / "add_bf16_staged")["C"]
    assert out.dtype.itemsize == 2 and out.dtype.name in ("bfloat16", "uint16")


def test_fp8_as_uint8(cases):
    """Y = e4m3(0.3 X)."""
    case = cases / "cast_float32_float8_e4m3fn"
    assert tilesim.run(case).sha256 == {"Y": CAST_HASH}
    with tilesim.open(case) as opened:
        shape = opened.parameter("X").shape
    out = np.zeros(shape, np.uint8)
    tilesim.run(case, np.full(shape, 5, np.float32), out)
    assert (out == 0x3C).all()  # 1.5


def test_ml_dtypes(cases):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    case = cases / "add_bf16_staged"
    with tilesim.open(case) as opened:
        shape = opened.parameter("A").shape
    a = np.full(shape, 1.5).astype(ml_dtypes.bfloat16)
    out = tilesim.run(case, a, a)["C"]
    assert out.dtype == ml_dtypes.bfloat16 and (out == 3).all()


# --- what goes wrong


def test_wrong_dtype_is_told_by_the_host_function(add):
    with pytest.raises(tilesim.InputError, match="A dtype mismatch, expected float32") as caught:
        tilesim.run(add, np.ones(5, np.float16), np.ones(5, np.float32))
    assert caught.value.status == "bad_argument"
    assert caught.value.diagnostics[0].code == "TS-HOST-001"


def test_failed_run_leaves_the_arrays_alone(add):
    c = np.zeros(5, np.float32)
    with pytest.raises(tilesim.InputError):
        tilesim.run(add, np.ones(5, np.float32), np.ones(6, np.float32), c)
    assert not c.any()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda a: (a,), TypeError, r"expected 2 or 3 positional arguments, found 1; free are A \(in\)"),
        (lambda a: (a, a, a, a), TypeError, "expected 2 or 3 positional"),
        (lambda a: (a, [1, 2]), TypeError, "B: expected a NumPy array or a torch tensor, found list"),
        (lambda a: (a, a.astype(">f4")), TypeError, "byte order"),
        (lambda a: (a, a.astype(complex)), TypeError, "complex128 are not understood"),
        (lambda a: (a, a[::-1]), ValueError, "not negative"),
    ],
)
def test_bad_arguments(add, make, error, text):
    with pytest.raises(error, match=text):
        tilesim.run(add, *make(np.ones(5, np.float32)))


def test_unknown_name(add):
    with pytest.raises(TypeError, match="no parameter 'shedule'"):
        tilesim.run(add, shedule="lazy")


def test_read_only_output(add):
    a, c = np.ones(5, np.float32), np.zeros(5, np.float32)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="C is an output, and the array is read-only"):
        tilesim.run(add, a, a, c)
    assert tilesim.run(add, c, a)["C"].tolist() == [0] * 5  # as an input it is fine


def test_no_such_case(tmp_path):
    with pytest.raises(tilesim.Error, match="no such folder") as caught:
        tilesim.open(tmp_path / "nothing")
    assert caught.value.status == "io"
    with pytest.raises(tilesim.InputError, match="not a case folder"):
        tilesim.open(tmp_path)


def test_unknown_machine_and_schedule(add):
    with pytest.raises(tilesim.Error, match="TS-INPUT"):
        tilesim.open(add, machine="abacus")
    with pytest.raises(tilesim.InputError, match="schedule 'never' is not known"):
        tilesim.run(add, schedule="never")
    assert tilesim.run(add, machine="h200-sxm").status == "ok"


def test_memory_limit(add):
    with tilesim.open(add, memory_limit_bytes=100) as case, pytest.raises(tilesim.Error) as caught:
        case.run()
    assert caught.value.status == "limit"


def test_closed_case(add):
    case = tilesim.open(add)
    case.close()
    case.close()
    with pytest.raises(ValueError, match="closed"):
        case.run()
