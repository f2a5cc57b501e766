#!/usr/bin/env python3
"""How complete and how fast `check` is, and how fast the interpreter: four tables.

    corpus     cases that run, that are exact (the H200's bits), whose result depends on an order, that are reported
    overhead   time of a run with all checks over that of a plain run: the GEMM of the README, and the worst cases
    mutants    what tests/mutate changed, and how much of it was reported
    speed      the interpreter against TRITON_INTERPRET=1 on the same work, by family (triton_twins.py)

    python3 bench/bench_check.py [SECTION..] [--build build] [--corpus ../shared/data/tilelang] [--case TEXT]

Times are of one process on one core, plain and checked runs in turns. `speed` needs triton and torch; --python names an
interpreter that has them. `mutants` takes many minutes; --mutate-output reads what an earlier run of the tool printed.
Exit status 1: a correct case is reported or has other bits, or an aim is missed."""
import argparse
import collections
import csv
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTIONS = ("corpus", "overhead", "mutants", "speed")
GEMM = "gemm_seed"
SHORT_SECONDS = 0.01  # what a shorter run takes is mostly not the kernel
WORST_SHOWN = 5
AIMS = {"gemm": 4.0, "anywhere": 8.0, "mutants": 95.0}
Measured = collections.namedtuple("Measured", "name kind codes run_seconds check_seconds")


def read_golden(path):
    """{case: {output: sha256 or None where five runs on the device differed}}"""
    golden = collections.defaultdict(dict)
    if not os.path.exists(path):
        sys.exit(f"{path}: there is no such file; --corpus names the folder of the cases")
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            golden[row["case"]][row["output"]] = row["sha256"] if row["deterministic"] == "yes" else None
    return golden


def find_cases(corpus, part):
    """(name, folder) of the cases, and of the sweep at 1024; the largest copies only move memory."""
    found = []
    for group, prefix in (("cases", ""), ("sweep", "sweep_1024")):
        folder = os.path.join(corpus, group)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.startswith(prefix) and part in name and not name.endswith("_256m"):
                found.append((name, os.path.join(folder, name)))
    return found


def expected_reports():
    """Names of cases that are reported rightly: tests/check/run_check.py has the reasons."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "check"))
    import run_check

    return {name: code for name, (_, code) in run_check.EXPECTED.items()}


class Corpus:
    def __init__(self, options):
        os.environ.setdefault("TILESIM_LIBRARY", os.path.abspath(options.build))
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import tilesim

        self.tilesim = tilesim
        self.golden = read_golden(os.path.join(options.corpus, "golden.tsv"))
        self.cases = find_cases(options.corpus, options.case)
        self.measured = []

    def timed(self, case, checks):
        start = time.perf_counter()
        result = case.run(workers=1, checks=checks, on_hazard="return", write_back=False)
        return result, time.perf_counter() - start

    def measure(self, name, folder):
        try:
            with self.tilesim.open(folder) as case:
                plain, run_seconds = self.timed(case, False)
                checked, check_seconds = self.timed(case, True)
                kind = self.judge(name, plain)
        except self.tilesim.UnsupportedError as error:
            return Measured(name, "unsupported", [str(error).splitlines()[0]], 0, 0)
        codes = [item.code for item in checked.diagnostics if item.severity == "hazard"]
        if plain.status == "ok" and checked.sha256 != plain.sha256:
            kind = "other bits with checks"
        order = any(item.code == "TS-ORDER-001" for item in checked.diagnostics)
        return Measured(name, kind, sorted(set(codes)) + ["order"] * order, run_seconds, check_seconds)

    def judge(self, name, result):
        """exact, ran (no golden bits), other bits, or the status of a run that did not end well."""
        wanted = {output: sha256 for output, sha256 in self.golden.get(name, {}).items() if sha256}
        if result.status != "ok":
            return result.status
        if any(result.sha256.get(output) != sha256 for output, sha256 in wanted.items()):
            return "other bits"
        return "exact" if wanted else "ran"

    def measure_all(self):
        for number, (name, folder) in enumerate(self.cases, 1):
            if sys.stderr.isatty():
                print(f"\r{number}/{len(self.cases)} {name:<60}", end="", file=sys.stderr, flush=True)
            self.measured.append(self.measure(name, folder))
        if sys.stderr.isatty():
            print("\r" + " " * 80 + "\r", end="", file=sys.stderr)

    def print_results(self):
        """The corpus table; whether it is as it should be."""
        expected = expected_reports()
        kinds = collections.Counter(item.kind for item in self.measured)
        reported = [item for item in self.measured if any(code != "order" for code in item.codes) and item.run_seconds]
        wrong = [item for item in reported if expected.get(item.name) not in item.codes]
        ran = sum(kinds.values()) - kinds["unsupported"]
        order = sum("order" in item.codes for item in self.measured)
        count = len(self.measured)
        print(f"corpus     {count} cases: {ran} run, {kinds['exact']} exact, {kinds['ran']} without bits to compare")
        print(f"           {order} flagged as depending on an order")
        print(f"           {len(reported)} reported, {len(reported) - len(wrong)} of them rightly")
        for item in self.measured:
            if item in reported or item.kind not in ("exact", "ran"):
                print(f"           {item.name}: {item.kind} {' '.join(item.codes)}")
        return not wrong and not kinds["other bits"] and not kinds["other bits with checks"]

    def again(self, item):
        """Best of three, in turns."""
        folder = dict(self.cases)[item.name]
        best = [item.run_seconds, item.check_seconds]
        with self.tilesim.open(folder) as case:
            for _ in range(2):
                for checks in (False, True):
                    best[checks] = min(best[checks], self.timed(case, checks)[1])
        return item._replace(run_seconds=best[0], check_seconds=best[1])

    def print_overhead(self):
        """The overhead table; whether it keeps the aims."""
        def factor(item):
            return item.check_seconds / item.run_seconds

        usable = [item for item in self.measured if item.run_seconds >= SHORT_SECONDS and item.kind in ("exact", "ran")]
        usable.sort(key=factor, reverse=True)
        worst = sorted(map(self.again, usable[:2 * WORST_SHOWN]), key=factor, reverse=True)[:WORST_SHOWN]
        rows = [("gemm", self.again(item)) for item in usable if item.name == GEMM]
        rows += [("anywhere", item) for item in worst]
        for aim, item in rows:
            print(f"overhead   {item.name:<44}{factor(item):6.2f}  (aim for {aim}: {AIMS[aim]:g})")
        return all(factor(item) <= AIMS[aim] for aim, item in rows)


def mutate_text(options):
    if options.mutate_output:
        with open(options.mutate_output, encoding="utf-8") as file:
            return file.read()
    command = ["ctest", "--test-dir", options.build, "-R", "^mutate$", "-V"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def print_mutants(options):
    """The sums of the mutation tool, its lines that begin with "all"."""
    pattern = re.compile(r"^(?:\d+: )?all\s+(.*?)\s*(\d+) mutants, +(\d+) change results?, +(\d+) reported", re.M)
    rows = pattern.findall(mutate_text(options))
    for what, mutants, changed, reported in rows:
        percent = f": {100 * int(reported) / int(changed):.1f} %" if int(changed) else ""
        print(f"mutants    {what:<8}{mutants:>6}, {changed:>6} change results, {reported:>6} reported{percent}")
    if not rows:
        print("mutants    the tool printed no sums")
    return bool(rows) and int(rows[0][3]) * 100 >= AIMS["mutants"] * int(rows[0][2])


def print_speed(options):
    command = [options.python, os.path.join(ROOT, "bench", "triton_twins.py"), os.path.join(options.corpus, "cases")]
    environment = dict(os.environ, TILESIM_LIBRARY=os.environ.get("TILESIM_LIBRARY", os.path.abspath(options.build)))
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        print(f"speed      {line}")
    if done.returncode:
        print("speed      " + "; ".join(done.stderr.strip().splitlines()[-1:]))
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="some of " + ", ".join(SECTIONS))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--corpus", default=os.path.join(ROOT, "..", "shared", "data", "tilelang"))
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--mutate-output", help="file with what tests/mutate printed")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the speed section")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    sections = options.sections or SECTIONS
    is_good = True
    if "corpus" in sections or "overhead" in sections:
        corpus = Corpus(options)
        corpus.measure_all()
        if "corpus" in sections:
            is_good = corpus.print_results() and is_good
        if "overhead" in sections:
            is_good = corpus.print_overhead() and is_good
    if "mutants" in sections:
        is_good = print_mutants(options) and is_good
    if "speed" in sections:
        is_good = print_speed(options) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
