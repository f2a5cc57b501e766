"""TileLang's random numbers against cuRAND 10.4 compiled for the host (integers and uniform numbers bit
for bit; of normal ones host and device differ in the last bits of logarithm, sine and cosine)."""

import os

import numpy as np
import pytest

if os.environ.get("TILESIM_WITH_TILELANG"):
    import tilelang  # noqa: F401 -- installed for these tests: not being able to import it is a failure
else:
    pytest.importorskip("tilelang", reason="TileLang is not installed: TILESIM_WITH_TILELANG=1")

import tilelang.language as T

from tilesim import tilelang as bridge

pytestmark = pytest.mark.integration
THREADS = 32

# generator, seed, sequence, offset: six draws, two uniform f32, five normal f32, two uniform f64, five
# normal f64, pairs of normal f32 and f64, one more of each, one more draw
CASES = [
    (
        "curandStateXORWOW_t", 0x123456789, 0x5, 0x7,
        [0xda5e606f, 0xeb855e4c, 0xcb7c8598, 0x125e206c, 0x718a96a7, 0x5a347934],
        [0x3f6acdd5, 0x3f67a397],
        [1.24865258, 0.34068802, -0.46589458, 0.796564639, 0.467385709],
        [0x3fe3e642f697299c, 0x3fe503bdbe2d1a90],
        [-0.3033459818161453, -1.9451943364897599, 0.52667883790288328],
        [0.32993779554414104, -1.8367797536434718],
        [-0.0064483112699999998, -0.136769742, 1.1269831843696327, -0.14563949309600674, 1.40375793, 0.79785509161587742],
        0xe0bfdacd,
    ),
    (
        "curandStateXORWOW_t", 0xfedcba9876543210, 0x123456789ab, 0xfedcba987654321,
        [0x6acccbc5, 0x332ce861, 0xb624dfca, 0xeb478513, 0xc2bde92c, 0x412820c2],
        [0x3f095709, 0x3e8ae5c2],
        [1.07803321, -0.0384699814, -0.309064478, 1.5910424, 1.87030745],
        [0x3fe7e01b02cdb5d6, 0x3fdfe5355d37bc47],
        [-0.53302201523532089, 2.1807058991639443, -0.364720508643606],
        [-0.9316208508094922, -1.6549353953496366],
        [0.74100309600000003, 0.23551309100000001, 0.82837336798200278, -0.64063680829319136, 0.29849687200000002, -0.16608863589906139],
        0x03e0c6a0,
    ),
    (
        "curandStateMRG32k3a_t", 0x123456789, 0x5, 0x7,
        [0xbdd8fa56, 0xdd0c2f55, 0x078f9aab, 0x09731df0, 0x765c8ed9, 0x252052b7],
        [0x3f558f9d, 0x3f551951],
        [0.333170146, -0.214712143, 0.61134547, -0.00630638935, -0.00607602065],
        [0x3f8570a3e180f5cc, 0x3fe18f60e3d60e1a],
        [0.46608339872508259, -0.57860105750071267, -0.64875106160559415],
        [-0.54249008139283972, -0.11617956550007268],
        [0.50973153100000002, -0.42843925999999999, -0.6720013951219862, -1.2761487779903302, -0.32413530299999999, -1.3204239545897103],
        0x741f46dc,
    ),
    (
        "curandStateMRG32k3a_t", 0xfedcba9876543210, 0x123456789ab, 0xfedcba987654321,
        [0x276ace6e, 0x1adf0847, 0x51bf55f7, 0x4dd6035a, 0x6f6499f0, 0x4a9595a1],
        [0x3ed184db, 0x3d0f575a],
        [0.144647628, 0.537210405, 1.98336422, -0.386690915, 1.02163625],
        [0x3fdd3e2bbcdfc1b6, 0x3fc6549fc23b166e],
        [-0.56713316106413825, 2.108404724191193, 1.3945997983370195],
        [0.36209992164629923, 0.46963818627667747],
        [-0.31490147099999999, -0.018656678499999999, 0.6525716076493544, 0.65477130665878924, -0.98427182400000002, -2.1971813934713396],
        0x82b08467,
    ),
    (
        "curandStatePhilox4_32_10_t", 0x123456789, 0x5, 0x7,
        [0x9dfa56c0, 0x47d49def, 0xd5853403, 0x75a27941, 0x4b7fd8cd, 0x8c070316],
        [0x3e6b59d0, 0x3f274005],
        [-0.612557173, -1.35824168, 1.89340711, 0.0441074483, 1.1284554],
        [0x3fed067cbe400000, 0x3fe18cde8b800000],
        [-0.10234903662403463, 1.5434163568766013, -0.73317995613465792],
        [0.93385977494349259, -0.15150655938815399],
        [0.195779711, -0.123871095, -0.95941159435651702, -1.0898442847540741, 1.2727606300000001, -1.19052991715628],
        0xa30c504d,
    ),
    (
        "curandStatePhilox4_32_10_t", 0xfedcba9876543210, 0x123456789ab, 0xfedcba987654321,
        [0xf6f4e86b, 0x0facf1e8, 0x71685f21, 0xa2d964f2, 0xe3df06c2, 0x082ed703],
        [0x3e5fa8dc, 0x3e935127],
        [0.0984220579, -0.705750883, -1.43739128, 0.309982419, -1.02457225],
        [0x3fc1d9ba4b800000, 0x3fcf349396000000],
        [-0.2453274358394773, 1.054949055641508, 0.22344670192281041],
        [0.38359688851958268, -0.34489783129859464],
        [-0.150035694, -0.30942386399999999, -1.584206056412347, -0.48133299966092313, -0.057235877999999997, -1.0706887714312325],
        0xd0f8ae02,
    ),
]


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def make(generator, seed, offset):
    """Thread t of block 0 draws from sequence S[0] + t - 3, so that neighbours are computed in every way."""

    @T.prim_func
    def main(
        S: T.Tensor((1,), "int64"),
        C: T.Tensor((THREADS, 7), "uint32"),
        F: T.Tensor((THREADS, 8), "float32"),
        D: T.Tensor((THREADS, 8), "float64"),
        P: T.Tensor((THREADS, 2), "float32"),
        Q: T.Tensor((THREADS, 2), "float64"),
    ):
        with T.Kernel(1, threads=THREADS) as _:
            tx = T.get_thread_binding()
            T.rng_init(T.int64(seed), S[0] + T.Cast("int64", tx) - 3, T.int64(offset), generator)
            for i in T.serial(6):
                C[tx, i] = T.rng_rand()
            for i in T.serial(2):
                F[tx, i] = T.rng_rand_float()
            for i in T.serial(5):
                F[tx, 2 + i] = T.rng_rand_float(dist="normal")
            for i in T.serial(2):
                D[tx, i] = T.rng_rand_float(64)
            for i in T.serial(5):
                D[tx, 2 + i] = T.rng_rand_float(64, "normal")
            for i in T.vectorized(2):
                P[tx, i] = T.rng_rand_float(dist="normal")
            for i in T.vectorized(2):
                Q[tx, i] = T.rng_rand_float(64, "normal")
            F[tx, 7] = T.rng_rand_float(dist="normal")
            D[tx, 7] = T.rng_rand_float(64, "normal")
            C[tx, 6] = T.rng_rand()

    return main


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0][11:17]}-{case[3]:x}")
def test_generators(case):
    generator, seed, sequence, offset, draws, uniform, normal, uniform64, early64, late64, pairs, last = case
    kernel = bridge.compile(make(generator, signed(seed), signed(offset)), target="sm_90", out_idx=[1, 2, 3, 4, 5])
    c, f, d, p, q = (np.asarray(x)[3] for x in kernel(np.array([sequence], dtype=np.int64)))
    assert [int(x) for x in c] == draws + [last]
    assert f[:2].view(np.uint32).tolist() == uniform
    assert d[:2].view(np.uint64).tolist() == uniform64
    np.testing.assert_allclose(f[2:7], normal, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(d[2:7], early64 + late64, rtol=1e-14)
    np.testing.assert_allclose([*p, *q, f[7], d[7]], pairs, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose([*q, d[7]], [pairs[2], pairs[3], pairs[5]], rtol=1e-14)


@pytest.mark.parametrize("generator", ["curandStateXORWOW_t", "curandStateMRG32k3a_t", "curandStatePhilox4_32_10_t"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_vectors_are_drawn_in_order(generator, lanes):
    """A vector of uniform numbers is what as many single draws give."""

    def make_filled(is_vector):
        loop = T.vectorized if is_vector else T.serial

        @T.prim_func
        def main(C: T.Tensor((THREADS, lanes), "uint32"), F: T.Tensor((THREADS, lanes), "float32")):
            with T.Kernel(1, threads=THREADS) as _:
                tx = T.get_thread_binding()
                T.rng_init(5, tx, 2, generator)
                for i in loop(lanes):
                    C[tx, i] = T.rng_rand()
                for i in loop(lanes):
                    F[tx, i] = T.rng_rand_float()

        return bridge.compile(main, target="sm_90", out_idx=[0, 1])()

    vectors, singles = make_filled(True), make_filled(False)
    for a, b in zip(vectors, singles):
        a, b = np.asarray(a), np.asarray(b)
        assert np.array_equal(a, b)
        assert len(np.unique(a)) == a.size
