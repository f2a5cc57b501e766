#!/usr/bin/env python3
"""Checks every #include against the allowed edges of tools/layers.txt.

usage: check_layers.py [ROOT]

src/       a file may include what its folder's row allows; x_priv.h only inside its own folder
include/   the public API includes nothing but itself and the C library
tests/     any header that is not private; test_<module>_*.c and fuzz_<module>_*.c also their own module's private ones
bench/     the same: bench_<module>_*.c is inside that module
examples/  the public API only

Prints `file:line: message` for each violation and exits 1 when there is one.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PUBLIC = "tilesim"


def read_rows(path):
    """The table {folder: set of entries}; a malformed line or unknown folder is an exit."""
    rows = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            folder, colon, entries = line.partition(":")
            if not colon or folder.strip() in rows:
                sys.exit(f"{path}:{number}: expected one `folder: entries` per folder")
            rows[folder.strip()] = set(entries.split())
    for folder, entries in rows.items():
        for entry in entries:
            if entry != PUBLIC and module_of(entry + "/", rows) is None and module_of(entry, rows) is None:
                sys.exit(f"{path}: {folder}: unknown entry {entry}")
    return rows


def module_of(path, rows):
    """The module whose folder holds the path (relative to src/), or None."""
    fitting = [folder for folder in rows if path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def test_module(path, rows):
    """The module that a test or bench program is about: test_front_tvm_x.c belongs to front/tvm."""
    name = os.path.basename(path)
    fitting = [f for f in rows if re.match(f"(?:test|fuzz|bench)_{f.replace('/', '_')}(_|\\.)", name)]
    return max(fitting, key=len, default=None)


def includes(path):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1), match.group(2)


class Checker:
    def __init__(self, root):
        self.root = root
        self.rows = read_rows(os.path.join(root, "tools", "layers.txt"))
        self.problems = []

    def files(self, top):
        for folder, folders, names in os.walk(os.path.join(self.root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def", ".inc")):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def resolve(self, source, header):
        """(module or PUBLIC or None, name as written from the include root)."""
        beside = os.path.normpath(os.path.join(os.path.dirname(source), header))
        if header.startswith(PUBLIC + "/"):
            return PUBLIC, header
        if "/" not in header and os.path.exists(os.path.join(self.root, beside)):
            for top in ("src/", "include/"):
                if beside.startswith(top):
                    return self.resolve(source, beside[len(top):])
            return None, header
        return module_of(header, self.rows), header

    def report(self, source, number, message):
        self.problems.append(f"{source}:{number}: {message}")

    def check(self, source, own, allowed):
        """allowed(module, header) answers for headers outside the own module."""
        for number, mark, header in includes(os.path.join(self.root, source)):
            module, name = self.resolve(source, header)
            if module is None:
                if mark == '"' and (source.startswith("src/") or ".." in header):
                    self.report(source, number, f'"{header}" belongs to no module')
                continue
            if module == own:
                continue
            if name.endswith("_priv.h"):
                self.report(source, number, f"{name} is private to {module}")
            elif not allowed(module, name):
                self.report(source, number, f"{own or source.split('/')[0]} must not include {name}")

    def run(self):
        for source in self.files("src"):
            own = module_of(source[len("src/"):], self.rows)
            if own is None:
                self.report(source, 1, "folder has no row in tools/layers.txt")
                continue
            row = self.rows[own]
            self.check(source, own, lambda module, name: module in row or name in row)
        for source in self.files("include"):
            self.check(source, PUBLIC, lambda module, name: False)
        for top in ("tests", "bench"):
            for source in self.files(top):
                self.check(source, test_module(source, self.rows), lambda module, name: True)
        for source in self.files("examples"):
            self.check(source, None, lambda module, name: module == PUBLIC)
        return self.problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    problems = Checker(os.path.normpath(root)).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
