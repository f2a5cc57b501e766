#!/usr/bin/env python3
"""Writes what docs/timing.md says in figures: the H200's constants, and tables of mechanisms, families, rankings, held-out
sets and the worst cases.

usage: gen_timing.py [--build FOLDER] [--accuracy FILE]

Runs test_model_nv_mechanism of the build folder, and reads the ratchet and what `accuracy.py --json FILE` has written. A table
stands between `<!-- NAME -->` and `<!-- end -->`; causes in the table of the worst cases are kept by case. A constant's
value follows its name: `name` 1.5.
"""
import argparse
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import accuracy  # noqa: E402

MACHINE = os.path.join(accuracy.ROOT, "machines", "h200-sxm.mach")
PAGE = os.path.join(accuracy.ROOT, "docs", "timing.md")
WORST_COUNT = 10
# Sets that were measured before the model timed them: title, key of the ratchet, first run (MAPE of all, GEMM, cold).
HELD_OUT = (
    ("first", "holdout", (10.0, 6.7, 13.0)),
    ("second", "holdout2", (21.5, 7.0, 16.4)),
    ("third", "holdout3", (9.7, 7.7, 9.0)),
)
# The rows of the mechanism table, (title, row of the test) in the order shown.
MECHANISMS = (
    ("FADD, dependent", "fadd_chain"),
    ("FADD, 16 warps", "fadd_8chains_16warps"),
    ("MUFU.EX2, dependent", "ex2_chain"),
    ("MUFU.EX2, 16 warps", "ex2_8chains_16warps"),
    ("DADD, 16 warps", "dadd_8chains_16warps"),
    ("SHFL, 16 warps", "shfl_bfly_8chains_16warps"),
    ("EX2 and FFMA mixed, 16 warps", "mix_ex2_ffma4_8chains_16warps"),
    ("IMAD and LOP3 mixed, 16 warps", "mix_imad_lop3_8chains_16warps"),
    ("s32 division, dependent", "div_s32_chain"),
    ("64 KB of code, first pass", "code64KB_1warps_first_pass"),
    ("64 KB of code, third pass", "code64KB_1warps_third_pass"),
    ("LDS, dependent, 8-way conflict", "lds_chain32_stride8_1warps"),
    ("LDS.32, 8-way conflict, 8 warps", "lds32_stride8_8warps"),
    ("STS.128, 8-way conflict, 8 warps", "sts128_stride8_8warps"),
    ("STS.32, 8-way conflict, 1 warp", "sts32_stride8_1warps"),
    ("LDSM x4, 8 warps", "ldmatrix_x4_row16B_8warps"),
    ("red.shared, 8 warps", "shared_red_add_u32_stride1_8warps"),
    ("L1 hit", "lat_l1_hit"),
    ("L2 hit", "lat_l2_1MB"),
    ("DRAM", "lat_dram_flushed_4MB_4KBapart"),
    ("LDG.128 x 8, 256 threads, L2", "ldg128_256thr_x8_hot"),
    ("LDG.128, a line each lane, 32 warps", "ldg128_rows16B_l1_32warps"),
    ("cp.async x 8, 256 threads, L2", "cpasync16_256thr_x8_hot"),
    ("cp.async x 8, 256 threads, DRAM", "cpasync16_256thr_x8_dram"),
    ("L2 reads of one SM, B/clk", "l2_ldg_own_1SM_128KBflight"),
    ("L2 reads of all SMs, B/clk", "l2_ldg_own_132SM_128KBflight"),
    ("DRAM reads, GB/s", "dram_read_256MB_cta1"),
    ("stores of all SMs, rows of 128 B, B/clk", "stg128_rows128B_132sm_512thr_rate"),
    ("TMA box of 16 KB, L2", "tma_burst1_64x128_done"),
    ("TMA box of 16 KB, DRAM", "tma_latency_64x128_dram"),
    ("TMA ring, boxes of 1 KB, 1 SM", "tma_ring_64x8_sm1_cta1_boxes1_stages4"),
    ("TMA ring, boxes of 16 KB, 1 SM", "tma_ring_64x128_sm1_cta1_boxes1_stages4"),
    ("TMA ring, boxes of 16 KB, all SMs", "tma_ring_64x128_sm132_cta1_boxes1_stages4"),
    ("tiles shared by 4 neighbours, B/clk", "l2_tma_shared_by_4_neighbours"),
    ("tiles of a GEMM, 12 x 11 blocks, B/clk", "l2_tma_gemm12x11_stages4"),
    ("TMA store of 8 KB", "tma_store_f16_128Bx64_boxes1_complete"),
    ("bar.sync, 8 warps", "sync_block_sync_8warps"),
    ("mbarrier, arrival to wake-up", "sync_mbarrier_handoff_128threads"),
    ("mbarrier wait, complete", "sync_mbarrier_wait_success_1warps"),
    ("wgmma N 128, group of 1", "wgmma_n128_ss_group1_1wg"),
    ("wgmma N 128, group of 4, 2 warpgroups", "wgmma_n128_ss_group4_2wg"),
    ("wgmma N 64, A in registers, group of 4", "wgmma_n64_rs_group4_1wg"),
    ("mma.sync m16n8k16, dependent", "mma_m16n8k16_f16_f32_chain"),
    ("mma.sync m16n8k16, 16 warps", "mma_m16n8k16_f16_f32_8chains_4warps_per_smsp"),
    ("red.f32, one word, all SMs", "red_f32_same_address_132sm_256thr"),
    ("red.f32, coalesced, all SMs", "red_f32_coalesced_own_132sm_256thr"),
    ("empty kernel, 132 blocks, us", "launch_empty_grid132_block128"),
    ("empty kernel, 16384 blocks, us", "launch_empty_grid16384_block128"),
    ("4 waves of 2000 cycles, us", "waves4_1cta_128thr_200KB_2000cycles"),
)


def mechanism_rows(build):
    """{row: (measured, model, ratio)} of the test's table."""
    program = os.path.join(build, "tests", "model", "test_model_nv_mechanism")
    text = subprocess.run([program], cwd=accuracy.ROOT, capture_output=True, text=True, check=False,
                          env={**os.environ, "CK_DEFAULT_TIMEOUT": "300"}).stdout
    found = re.findall(r"^(\S+) +([\d.]+) +([\d.]+) +([\d.]+)(?: |$)", text, re.MULTILINE)
    return {name: tuple(float(value) for value in values) for name, *values in found}


def mechanism_table(build):
    rows = mechanism_rows(build)
    missing = [name for _, name in MECHANISMS if name not in rows]
    if missing:
        sys.exit("test_model_nv_mechanism has no row " + ", ".join(missing))
    good = sum(0.9 <= ratio <= 1.1 for *_, ratio in rows.values())
    fair = sum(0.8 <= ratio <= 1.25 for *_, ratio in rows.values())
    yield (f"Of all {len(rows)} rows {good} are within 10 %, {fair} within 0.8 to 1.25; "
           f"these are {len(MECHANISMS)} of them:")
    yield ""
    yield "| mechanism | row of `ubench.csv` | measured | model | ratio |"
    yield "|---|---|---|---|---|"
    for title, name in MECHANISMS:
        measured, model, ratio = rows[name]
        yield f"| {title} | `{name}` | {measured:g} | {model:g} | {ratio:.2f} |"


def held_out_table(ratchet):
    yield "| set | kernels | first run: MAPE % | GEMM | cold | now: MAPE % | GEMM | cold |"
    yield "|---|---|---|---|---|---|---|---|"
    for title, key, first in HELD_OUT:
        now = [ratchet[key][name] for name in ("MAPE all", "MAPE GEMM", "MAPE all, cold")]
        cells = [title, str(ratchet[key]["timed cases"]), *(f"{x:.1f}" for x in (*first, *now))]
        yield f"| {' | '.join(cells)} |"


def held_out_ranking_table(ratchet):
    yield "| set | variants of | Kendall's tau | regret of the pick % |"
    yield "|---|---|---|---|"
    for title, key, _ in HELD_OUT:
        for name, tau in ratchet[key].items():
            problem = name.removeprefix("tau ")
            if problem != name and problem.split()[-1] not in ("ws", "nows", "sm80"):
                yield f"| {title} | {problem} | {tau:.2f} | {ratchet[key]['regret ' + problem]:.1f} |"


def with_constants(page):
    """The page with the machine's values behind the names of constants."""
    with open(MACHINE, encoding="utf-8") as file:
        values = dict(re.findall(r"^(\w+) +([\d.]+) ", file.read(), re.MULTILINE))
    return re.sub(r"`(\w+)` ([\d.]*\d)", lambda at: f"`{at[1]}` {values.get(at[1], at[2])}", page)


def mean_error(cases, key="error"):
    return f"{accuracy.mean(100 * abs(case[key]) for case in cases):.1f}" if cases else ""


def family_line(name, cases):
    report = [case for case in cases if case["half"] == "report"]
    bias = accuracy.mean(100 * case["error"] for case in cases)
    worst = max(cases, key=lambda case: abs(case["error"]))["error"]
    return (f"| {name} | {len(cases)} | {mean_error(cases)} | {bias:+.1f} | {100 * worst:+.0f} | "
            f"{len(report)} | {mean_error(report)} | {mean_error(cases, 'cold_error')} |")


def family_table(cases):
    families = {}
    for case in cases:
        families.setdefault(case["family"], []).append(case)
    gemm = [case for case in cases if case["family"].startswith(("gemm", "sweep_"))]
    inside = accuracy.mean(abs(case["error"]) <= case["time"]["uncertainty"] for case in cases)
    yield f"Of {len(cases)} cases {100 * inside:.0f} % are inside the stated uncertainty."
    yield ""
    yield "| family | cases | MAPE % | bias % | worst % | report half | its MAPE % | cold MAPE % |"
    yield "|---|---|---|---|---|---|---|---|"
    yield family_line("**all**", cases)
    yield family_line("**GEMM variants** (gemm, sweep)", gemm)
    small = []
    for name, group in sorted(families.items()):
        if len(group) < 3:
            small += group
        else:
            yield family_line(name, group)
    if small:
        names = sorted({case["family"] for case in small})
        yield family_line(f"{len(names)} families of one or two: " + ", ".join(names), small)


def ranking_table(figures):
    yield "| variants | Kendall's tau | regret of the pick % |"
    yield "|---|---|---|"
    for name, value in figures.items():
        if name.startswith("tau "):
            which = name[4:]
            yield f"| {which} | {value:.2f} | {figures['regret ' + which]:.1f} |"


def worst_table(cases, old):
    causes = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", old, re.MULTILINE))
    yield "| case | device us | model us | error % | cause |"
    yield "|---|---|---|---|---|"
    for case in sorted(cases, key=lambda case: -abs(case["error"]))[:WORST_COUNT]:
        yield (f"| `{case['case']}` | {case['hot_us']:.1f} | {case['time']['kernel_us']:.1f} | "
               f"{100 * case['error']:+.0f} | {causes.get(case['case'], 'not looked into yet')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0],
                                     epilog="example: tools/accuracy.py --json /tmp/a.json; "
                                            "tools/gen_timing.py --accuracy /tmp/a.json")
    parser.add_argument("--build", default=os.path.join(accuracy.ROOT, "build"), help="build folder (build)")
    parser.add_argument("--accuracy", metavar="FILE", help="of accuracy.py --json; without it its tables stay")
    options = parser.parse_args()
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    tables = {"mechanisms": lambda old: mechanism_table(os.path.abspath(options.build))}
    with open(accuracy.RATCHET, encoding="utf-8") as file:
        ratchet = json.load(file)
    tables["heldout"] = lambda old: held_out_table(ratchet)
    tables["heldout_rankings"] = lambda old: held_out_ranking_table(ratchet)
    if options.accuracy:
        with open(options.accuracy, encoding="utf-8") as file:
            content = json.load(file)
        timed = [case for case in content["cases"] if case["time"]]
        tables["families"] = lambda old: family_table(timed)
        tables["rankings"] = lambda old: ranking_table(content["figures"])
        tables["worst"] = lambda old: worst_table(timed, old)
    for name, make in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
        old = pattern.search(page)
        if not old:
            sys.exit(f"{PAGE} has no table {name}")
        new = "\n".join(make(old.group(2)))
        page = page[:old.start(2)] + new + "\n" + page[old.end(2):]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(with_constants(page))


if __name__ == "__main__":
    main()
