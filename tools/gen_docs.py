#!/usr/bin/env python3
"""Writes the pages of docs/ that are made from tables: diagnostics.md and ops.md.

usage: gen_docs.py [--check]     with --check, exits 1 when a page is not current
"""
import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), ".."))
ARGUMENT = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,"]*)\s*(?:,|$)')

SEVERITIES = {
    "ERROR": "the input or the arguments are at fault; the work stops",
    "HAZARD": "the kernel is at fault; hardware may give other bits or hang",
    "REMARK": "worth knowing; the result stands",
}
UNITS = {
    "MOVE": "Moves", "SCALAR": "Arithmetic", "SPECIAL": "Special functions", "MATRIX": "Matrix",
    "MEMORY": "Memory", "SYNC": "Synchronisation", "CTRL": "Control",
}


def rows(path, macro):
    """The arguments of each `macro(...)` line of a .def file, strings without quotes."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as lines:
        for line in lines:
            match = re.match(rf"{macro}\((.*)\)\s*(/\*.*)?$", line)
            if match:
                cells = [m.group(1).strip() for m in ARGUMENT.finditer(match.group(1)) if m.group(0)]
                yield [re.sub(r'^"(.*)"$', r"\1", cell) for cell in cells]


def cell(text):
    return text.replace("|", "\\|")


def diagnostic_texts(path):
    """{code: lines} of docs/diagnostics.txt."""
    texts, lines = {}, []
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("= "):
                lines = texts.setdefault(line[2:].strip(), [])
            elif not line.startswith("#"):
                lines.append(line)
    return texts


def diagnostics():
    table, texts = list(rows("src/base/diag.def", "DIAG")), diagnostic_texts("docs/diagnostics.txt")
    codes = [row[1] for row in table]
    odd = sorted(set(codes) ^ set(texts))
    if odd:
        sys.exit("docs/diagnostics.txt and src/base/diag.def disagree about " + ", ".join(odd))
    out = ["# Diagnostics", "", "Made from `src/base/diag.def` and `docs/diagnostics.txt` by `tools/gen_docs.py`.", "",
           "| severity | meaning |", "|---|---|"]
    out += [f"| {name.lower()} | {text} |" for name, text in SEVERITIES.items()]
    out += ["", "`--format json` gives the same as objects with code, severity, title, message, hint, place, other, function,",
            "block, warp, lane and count.", "", "| code | severity | title |", "|---|---|---|"]
    for _, code, severity, title in table:
        out.append(f"| [{code}](#{code.lower()}) | {severity.lower()} | {cell(title)} |")
    for _, code, severity, title in table:
        out += ["", f"## {code}", "", f"*{severity.lower()}: {title}*", ""] + "\n".join(texts[code]).strip("\n").split("\n")
    return out


def operations():
    table = list(rows("src/ir/op.def", "OP"))
    out = ["# Operations", "", "Made from `src/ir/op.def` by `tools/gen_docs.py`; its header explains operand letters and flags."]
    for unit, title in UNITS.items():
        chosen = [row for row in table if row[3] == unit]
        if not chosen:
            continue
        out += ["", f"## {title}", "", "| operation | operands | flags | meaning |", "|---|---|---|---|"]
        for _, mnemonic, _, _, has_dst, operands, flags, synopsis in chosen:
            shown = " ".join(flag[2:].lower() for flag in re.split(r"\s*\|\s*", flags) if flag.startswith("F_"))
            form = " = ".join(part for part in ("dst" if has_dst == "1" else "", operands) if part)
            out.append(f"| `{mnemonic}` | {cell(form)} | {shown} | {cell(synopsis)} |")
    return out


def main():
    status = 0
    for name, make in (("diagnostics.md", diagnostics), ("ops.md", operations)):
        path = os.path.join(ROOT, "docs", name)
        text = "\n".join(make()) + "\n"
        if sys.argv[1:] == ["--check"]:
            current = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
            if current != text:
                print(f"docs/{name} is not current: run tools/gen_docs.py")
                status = 1
        else:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
