#!/usr/bin/env python3
"""How far `tilesim time` is from an H200, by family, and whether it ranks variants as the device does.

usage: accuracy.py [--set corpus|traces|holdout|holdout2|holdout3] [--tilesim PROGRAM] [options]

Five sets: "corpus" is the data beside the checkout (--data), "traces" the cases of the tree with traces/h200/times.tsv,
"holdout" to "holdout3" those of traces/SET_h200.tar.xz with traces/h200/SET.tsv.
Constants may be calibrated on one half of the corpus (crc32 of the name even); what is reported is the other half.
None may be calibrated on a holdout: it says what the model is worth on kernels that it has not seen.
The result is compared with tests/accuracy/ratchet.json, and the exit status is 1 when anything is worse than it says;
--update writes the file, after a change that is better, or one that has a reason. Needs only the standard library.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATCHET = os.path.join(ROOT, "tests", "accuracy", "ratchet.json")
TRACES = os.path.join(ROOT, "traces")
HOLDOUTS = ("holdout", "holdout2", "holdout3")
SWEEPS = [(size, kind) for size in (1024, 4096) for kind in ("ws", "nows", "sm80", "")]
TIE = 0.02        # measured times nearer than that are not told apart
SLACK = 0.005     # of a ratchet: rounding of its two decimals
SKIPPED = 77      # ctest's SKIP_RETURN_CODE


class Case:
    """A measured case, and what the model says of it."""

    def __init__(self, name, folder, hot_us, cold_us):
        self.name, self.folder, self.hot_us, self.cold_us = name, folder, hot_us, cold_us
        self.time, self.failure, self.wall_s = None, "", 0.0

    @property
    def family(self):
        parts = self.name.split("_")
        return "_".join(parts[:2]) if parts[0] == "sweep" else parts[0]

    @property
    def is_gemm(self):
        return self.name.startswith(("gemm_", "sweep_"))

    @property
    def is_reported(self):
        return zlib.crc32(self.name.encode()) & 1 == 1

    @property
    def error(self):
        return self.time["kernel_us"] / self.hot_us - 1

    @property
    def cold_error(self):
        return self.time["kernel_us_cold"] / self.cold_us - 1


def read_table(path):
    """The rows of a table with a header, as {column: text}."""
    with open(path, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def find_set(options, scratch):
    """(table of times, table of registers or None, folders that hold the cases) of the set."""
    if options.set == "traces":
        return os.path.join(TRACES, "h200", "times.tsv"), None, [TRACES]
    if options.set in HOLDOUTS:
        with tarfile.open(os.path.join(TRACES, f"{options.set}_h200.tar.xz")) as archive:
            archive.extractall(scratch, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(scratch)
        table = os.path.join(TRACES, "h200", f"{options.set}.tsv")
        return table, table, [os.path.join(scratch, "cases")]
    folders = [os.path.join(options.data, part) for part in ("cases", "sweep")]
    return os.path.join(options.data, "times.tsv"), os.path.join(options.data, "kernels.tsv"), folders


def read_cases(options, table, folders):
    """The cases of the set with a measured time and a folder, or None when the data is absent."""
    if not os.path.exists(table):
        return None
    hot, cold = ("hot_us", "cold_us") if options.set in HOLDOUTS else ("hot_median_us", "cold_median_us")
    cases = []
    for row in read_table(table):
        name = row["case"]
        folder = next((f for f in (os.path.join(base, name) for base in folders) if os.path.isdir(f)), None)
        if folder and re.search(options.filter, name):
            cases.append(Case(name, folder, float(row[hot]), float(row[cold])))
    return cases


def read_registers(options, table):
    """{case: registers per thread as nvcc gave them}, for cases of one kernel."""
    found = {}
    if not options.registers or not table or not os.path.exists(table):
        return found
    for row in read_table(table):
        found[row["case"]] = None if row["case"] in found else row["registers"]
    return {name: count for name, count in found.items() if count and count.isdigit()}


def run_case(case, options, registers):
    command = [options.tilesim, "time", case.folder, "--machine", options.machine, "--format", "json"]
    if case.name in registers:
        command += ["--registers", registers[case.name]]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
        answer = json.loads(done.stdout)
        case.time = answer if done.returncode == 0 else None
        told = answer["diagnostics"] or [{"code": "exit status", "message": done.returncode}]
        case.failure = "" if case.time else f"{told[0]['code']} {told[0]['message']}"
    except subprocess.TimeoutExpired:
        case.failure = f"more than {options.limit} s"
    except json.JSONDecodeError:
        case.failure = f"exit status {done.returncode}, no JSON: {done.stderr[:200]}"
    case.wall_s = time.monotonic() - start


def run_all(cases, options, registers):
    shown = sys.stderr.isatty()
    with ThreadPoolExecutor(options.jobs) as pool:
        for done, _ in enumerate(pool.map(lambda case: run_case(case, options, registers), cases), 1):
            if shown:
                print(f"\r{done} of {len(cases)} cases", end="", file=sys.stderr)
    if shown:
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


# --- figures

def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def mape(cases, key="error"):
    return 100 * mean(abs(getattr(case, key)) for case in cases)


def bias(cases, key="error"):
    return 100 * mean(getattr(case, key) for case in cases)


def kendall_tau(cases):
    """Over pairs that the device tells apart; None when there is none."""
    score = pairs = 0
    for i, a in enumerate(cases):
        for b in cases[:i]:
            if abs(a.hot_us / b.hot_us - 1) < TIE:
                continue
            product = (a.hot_us - b.hot_us) * (a.time["kernel_us"] - b.time["kernel_us"])
            pairs += 1
            score += (product > 0) - (product < 0)
    return score / pairs if pairs else None


def regret(cases):
    """How much slower the model's pick is than the device's best, in %."""
    pick = min(cases, key=lambda case: (case.time["kernel_us"], case.name))
    return 100 * (pick.hot_us / min(case.hot_us for case in cases) - 1)


def rankings(cases):
    """(name, cases of one problem): the sweeps of the corpus, plain products by shape, and what is named problem__variant."""
    for size, kind in SWEEPS:
        prefix = f"sweep_{size}_{kind + '_' if kind else ''}"
        group = [case for case in cases if case.name.startswith(prefix)]
        if len(group) > 1 and kendall_tau(group) is not None:
            yield f"{size} {kind or 'all'}", group
    problems = {}
    for case in cases:
        found = re.match(r"gemm_(\d+x\d+x\d+)_(?:ws|nows|sm80)_", case.name)
        names = {found.group(1)} if found else set()
        if "__" in case.name:
            names.add(case.name.split("__")[0].removeprefix("gemm_").replace("_", " "))
        for name in names:
            problems.setdefault(name, []).append(case)
    for name, group in sorted(problems.items()):
        if len(group) > 3 and kendall_tau(group) is not None:
            yield name, group


def summary(cases, timed, is_holdout):
    """What the ratchet holds. Key: (value, whether more is better). The holdout has no halves: all of it is unseen."""
    half = [case for case in timed if case.is_reported]
    gemm = [case for case in timed if case.is_gemm]
    figures = {"timed cases": (len(timed), True), "refused cases": (len(cases) - len(timed), False)}
    for name, group, key in (("MAPE all, report half", half, "error"),
                             ("MAPE GEMM, report half", [c for c in half if c.is_gemm], "error"),
                             ("MAPE all", timed, "error"), ("MAPE GEMM", gemm, "error"),
                             ("MAPE all, cold", timed, "cold_error")):
        if group and not (is_holdout and name.endswith("half")):
            figures[name] = (round(mape(group, key), 2), False)
    for name, group in rankings(timed):
        figures[f"tau {name}"] = (round(kendall_tau(group), 3), True)
        figures[f"regret {name}"] = (round(regret(group), 2), False)
    return figures


# --- telling

def print_table(timed, verbose):
    families = {}
    for case in timed:
        families.setdefault(case.family, []).append(case)
    print(f"{'family':12} {'n':>3} {'MAPE':>7} {'bias':>7} {'worst':>7}  {'cold':>7} {'bias':>7}  worst case")
    for name, group in [*sorted(families.items()), ("all", timed)]:
        worst = max(group, key=lambda case: abs(case.error))
        print(f"{name:12} {len(group):3} {mape(group):7.2f} {bias(group):+7.2f} {100 * worst.error:+7.1f}  "
              f"{mape(group, 'cold_error'):7.2f} {bias(group, 'cold_error'):+7.2f}  {worst.name}")
    shown = timed if verbose else sorted(timed, key=lambda case: -abs(case.error))[:15]
    print("\nall cases" if verbose else "\nthe worst")
    print(f"{'case':42} {'device':>9} {'model':>9} {'error':>7} {'cold':>7}  limited by")
    for case in shown:
        limits = ", ".join(sorted({launch["limiting_unit"] for launch in case.time.get("launches", [])}))
        print(f"{case.name:42} {case.hot_us:9.3f} {case.time['kernel_us']:9.3f} {100 * case.error:+7.1f} "
              f"{100 * case.cold_error:+7.1f}  {limits}")


def print_rest(cases, timed):
    for case in cases:
        if not case.time:
            print(f"refused {case.name}: {case.failure}")
    slowest = sorted(cases, key=lambda case: -case.wall_s)[:3]
    print("slowest: " + ", ".join(f"{case.name} {case.wall_s:.1f} s" for case in slowest))
    inside = mean(abs(case.error) <= case.time.get("uncertainty", 0) for case in timed)
    print(f"inside the stated uncertainty: {100 * inside:.0f} %")


def compare(figures, ratchet):
    """Prints every figure beside the ratchet; answers those that are worse."""
    worse = []
    print(f"\n{'figure':28} {'now':>8} {'ratchet':>8}")
    for name, (value, more_is_better) in figures.items():
        bound = ratchet.get(name)
        is_worse = bound is not None and (bound - value if more_is_better else value - bound) > SLACK
        print(f"{name:28} {value:8g} {'' if bound is None else format(bound, '8g')}{'  WORSE' if is_worse else ''}")
        if is_worse:
            worse.append(name)
    worse += [name for name in ratchet if name not in figures]
    return worse


def write_ratchet(options, figures):
    content = {}
    if os.path.exists(RATCHET):
        with open(RATCHET, encoding="utf-8") as file:
            content = json.load(file)
    content[options.set] = {name: value for name, (value, _) in figures.items()}
    with open(RATCHET, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, sort_keys=True)
        file.write("\n")


def write_json(path, cases, figures):
    rows = [{"case": case.name, "family": case.family, "half": "report" if case.is_reported else "calibration",
             "hot_us": case.hot_us, "cold_us": case.cold_us, "failure": case.failure, "wall_s": round(case.wall_s, 3),
             "error": case.error if case.time else None, "cold_error": case.cold_error if case.time else None,
             "time": case.time} for case in cases]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"figures": {name: value for name, (value, _) in figures.items()}, "cases": rows}, file, indent=1)
        file.write("\n")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0],
                                     epilog="example: tools/accuracy.py --set corpus --filter '^sweep_4096' --verbose")
    parser.add_argument("--set", choices=("corpus", "traces", *HOLDOUTS), default="corpus", help="which cases (corpus)")
    parser.add_argument("--tilesim", default=os.path.join(ROOT, "build", "tilesim"), help="the program")
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "tilelang"), help="the corpus")
    parser.add_argument("--machine", default="h200", help="the machine; times are an H200's")
    parser.add_argument("--filter", default=".", help="regular expression of case names; no ratchet then")
    parser.add_argument("--registers", action="store_true", help="registers as nvcc gave them, not as estimated")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="cases at a time (2)")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a case may take (120)")
    parser.add_argument("--verbose", action="store_true", help="every case, not the 15 worst")
    parser.add_argument("--json", metavar="FILE", help="write all figures and reports")
    parser.add_argument("--update", action="store_true", help="write the ratchet instead of comparing with it")
    return parser.parse_args()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        return check(parse_options(), scratch)


def check(options, scratch):
    table, registers, folders = find_set(options, scratch)
    cases = read_cases(options, table, folders)
    if not cases:
        print(f"NOT CHECKED: no measured cases of the set '{options.set}' (looked in {options.data}); "
              "the accuracy of the timing model was not compared with a device")
        return SKIPPED
    run_all(cases, options, read_registers(options, registers))
    timed = [case for case in cases if case.time]
    if timed:
        print_table(timed, options.verbose)
    print_rest(cases, timed)
    figures = summary(cases, timed, options.set in HOLDOUTS)
    if options.json:
        write_json(options.json, cases, figures)
    is_whole = options.filter == "." and not options.registers and options.machine == "h200"
    if options.update and is_whole:
        write_ratchet(options, figures)
    ratchet = {}
    if is_whole and os.path.exists(RATCHET):
        with open(RATCHET, encoding="utf-8") as file:
            ratchet = json.load(file).get(options.set, {})
    worse = compare(figures, ratchet)
    if worse:
        print("worse than the ratchet: " + ", ".join(worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
