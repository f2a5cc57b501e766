#!/usr/bin/env python3
"""Runs case folders and compares the hashes of their outputs with what the device computed.

Every case must behave as expected_failures.tsv says: a case that is not listed there must give the golden bits; a listed
one must fail in the listed way. An unexpected pass is a failure as well, so the list stays true.
Needs only the standard library."""
import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAST_SECONDS = 1.0  # cases below this are run under the other schedules too
SCHEDULES = ["lazy", "random:1"]

Golden = collections.namedtuple("Golden", "sha256 is_deterministic")
Outcome = collections.namedtuple("Outcome", "kind detail seconds")


def read_golden(path):
    """{case: {output: Golden}}"""
    golden = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        next(file)
        for line in file:
            case, output, sha256, deterministic = line.rstrip("\n").split("\t")[:4]
            golden[case][output] = Golden(sha256, deterministic == "yes")
    return golden


def read_expected(path):
    """{case: (kind, reason)}"""
    expected = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 3 or not fields[2] or fields[0] in expected:
                sys.exit(f"{path}:{number}: expected CASE<tab>KIND<tab>REASON, each case once")
            expected[fields[0]] = (fields[1], fields[2])
    return expected


class Runner:
    def __init__(self, program, limit_seconds):
        self.program = program
        self.limit_seconds = limit_seconds

    def run(self, folder, *options):
        command = [self.program, "run", folder, "--hash", *options]
        start = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.limit_seconds)
        except subprocess.TimeoutExpired:
            return None, {}, f"no end after {self.limit_seconds} s", time.monotonic() - start
        hashes = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        return done.returncode, hashes, done.stderr.strip(), time.monotonic() - start

    def outcome(self, folder, golden):
        """Outcome with kind pass, ran (nothing to compare), hash, unsupported, hazard or broken."""
        code, hashes, errors, seconds = self.run(folder, "-j", "1")
        first = errors.splitlines()[0] if errors else ""
        if code == 1:
            return Outcome("hazard", errors, seconds)
        if code == 2:
            return Outcome("unsupported", first, seconds)
        if code != 0:
            return Outcome("broken", f"exit status {code}: {first}", seconds)
        compared = {name: row for name, row in golden.items() if row.is_deterministic}
        missing = sorted(set(golden) - set(hashes))
        if missing:
            return Outcome("broken", "no output " + ", ".join(missing), seconds)
        wrong = sorted(name for name, row in compared.items() if hashes[name] != row.sha256)
        if wrong:
            return Outcome("hash", "other bits in " + ", ".join(wrong), seconds)
        return Outcome("pass" if compared else "ran", "", seconds)

    def variants(self, folder, options):
        """None when every variant of the run gives the same hashes, else what differs."""
        _, plain, _, _ = self.run(folder, "-j", "1")
        for option in options:
            code, hashes, errors, _ = self.run(folder, *option)
            if code != 0 or hashes != plain:
                first = errors.splitlines()[0] if errors else "other bits"
                return f"{' '.join(option)}: exit status {code}, {first}"
        return None


def judge(outcome, expectation):
    """(is_good, text)"""
    kind, reason = expectation if expectation else (None, "")
    if kind is None:
        return outcome.kind in ("pass", "ran"), f"{outcome.kind}: {outcome.detail}"
    name, _, code = kind.partition(":")
    if outcome.kind == name and code in outcome.detail:
        return True, reason
    if outcome.kind == "pass":
        return False, f"passes, but expected_failures.tsv says {kind} ({reason}): remove the line"
    return False, f"expected {kind}, found {outcome.kind}: {outcome.detail}"


def family(case):
    return case.split("_")[0]


def find_cases(folder):
    """Names of the case folders: those with a device module or a launch.json."""
    marks = ("launch.json", "device.json", "device.json.xz")
    names = sorted(os.listdir(folder))
    return [name for name in names if any(os.path.exists(os.path.join(folder, name, mark)) for mark in marks)]


def run_folder(runner, folder, golden, expected, arguments, part="", variants=True):
    """Returns the number of cases, of those with `part` in the name, that did not behave as expected."""
    cases = [case for case in find_cases(folder) if part in case and (not arguments.case or case in arguments.case)]
    skipped = {case: expected[case][1] for case in cases if expected.get(case, ("",))[0] == "skip"}
    cases = [case for case in cases if case not in skipped]

    def work(case):
        outcome = runner.outcome(os.path.join(folder, case), golden.get(case, {}))
        good, text = judge(outcome, expected.get(case))
        difference = None
        if good and variants and arguments.variants and outcome.kind in ("pass", "hash") and outcome.seconds < FAST_SECONDS:
            difference = check_variants(runner, os.path.join(folder, case), arguments.tier)
        return case, outcome, good and not difference, difference or text

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(work, cases))
    report(folder, results, skipped, expected, arguments.verbose)
    return sum(1 for _, _, good, _ in results if not good)


def check_variants(runner, folder, tier):
    with tempfile.TemporaryDirectory() as scratch:
        options = [["-j", "1", "--schedule", schedule] for schedule in SCHEDULES]
        options.append(["-j", "2"])
        if tier == "quick":
            options.append(["--events", os.path.join(scratch, "events.tsev")])
        return runner.variants(folder, options)


def report(folder, results, skipped, expected, verbose):
    families = collections.defaultdict(collections.Counter)
    for case, outcome, good, _ in results:
        column = "unexpected" if not good else outcome.kind if case not in expected else "expected failure"
        families[family(case)][column] += 1
    columns = ["pass", "ran", "expected failure", "unexpected"]
    print(f"{folder}\n  {'family':<12}" + "".join(f"{column:>18}" for column in columns))
    total = collections.Counter()
    for name in sorted(families):
        total.update(families[name])
        print(f"  {name:<12}" + "".join(f"{families[name][column]:>18}" for column in columns))
    print(f"  {'all':<12}" + "".join(f"{total[column]:>18}" for column in columns))
    for case, reason in sorted(skipped.items()):
        print(f"  not run: {case}: {reason}")
    for case, outcome, good, text in results:
        if not good:
            print(f"  UNEXPECTED {case}: {text}")
        elif verbose:
            print(f"  {outcome.kind:<12} {outcome.seconds:6.2f} s {case}  {text if case in expected else ''}")


def run_archive(runner, traces, expected, arguments):
    """The cases of kernels_h200.tar.xz: several hundred small kernels, unpacked for the run."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(os.path.join(traces, "kernels_h200.tar.xz")) as archive:
            archive.extractall(scratch, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(scratch)
        folder = os.path.join(scratch, "cases")
        golden = read_golden(os.path.join(traces, "kernels_h200.tsv"))
        return run_folder(runner, folder, golden, expected, arguments, variants=False), find_cases(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tilesim", default=os.path.join(ROOT, "build", "tilesim"), help="the program")
    parser.add_argument("--corpus", default=os.path.join(os.path.dirname(ROOT), "shared", "data", "tilelang"))
    parser.add_argument("--tier", choices=["quick", "full"], default="full", help="quick: traces/ only")
    parser.add_argument("--no-variants", dest="variants", action="store_false", help="only the plain run of each case")
    parser.add_argument("--case", action="append", help="only this case; may repeat")
    parser.add_argument("--limit", type=float, default=300, help="seconds a run may take")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    expected = read_expected(os.path.join(ROOT, "tests", "golden", "expected_failures.tsv"))
    runner = Runner(arguments.tilesim, arguments.limit)
    traces = os.path.join(ROOT, "traces")
    bad = run_folder(runner, traces, read_golden(os.path.join(traces, "golden.tsv")), expected, arguments)
    known = set(find_cases(traces))
    if arguments.tier == "full":
        worse, names = run_archive(runner, traces, expected, arguments)
        bad += worse
        known.update(names)
    corpus = os.path.join(arguments.corpus, "cases")
    if arguments.tier == "full" and os.path.isdir(corpus):
        golden = read_golden(os.path.join(arguments.corpus, "golden.tsv"))
        bad += run_folder(runner, corpus, golden, expected, arguments)
        sweep = os.path.join(arguments.corpus, "sweep")
        if os.path.isdir(sweep):  # one GEMM in 42 configurations; the larger size takes minutes
            bad += run_folder(runner, sweep, golden, expected, arguments, part="_1024_", variants=False)
        unknown = sorted(set(expected) - known - set(find_cases(corpus)))
        if unknown and not arguments.case:
            print("expected_failures.tsv names cases that do not exist: " + ", ".join(unknown))
            bad += len(unknown)
    elif arguments.tier == "full":
        print(f"NOTE: there is no {corpus}: only the cases of traces/ were run")
    print(f"golden: {bad} cases did not behave as expected" if bad else "golden: all as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
