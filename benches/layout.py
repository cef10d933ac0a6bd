#!/usr/bin/env python3
"""Which functions a rendering and an operator run, as a linker script that puts them next to each other:
layout.py TILLERMAN OPERATOR CHART...

The program is some 30 MB, of which a rendering runs one and an operator four, spread over all of it; a page that is touched
first costs microseconds, and the kernel maps those around it as well, which count as the operator's memory. Functions are
found with callgrind, and named without their hash, so that the script outlives changes of the code: a function it does not
know, or knows in vain, is only where the linker would have put it. OPERATOR is a folder of what callgrind wrote of an operator.
"""
import collections, os, re, subprocess, sys, tempfile

FUNCTION = re.compile(r"c?fn=\((\d+)\)(?: (.*))?$")
# Bytes that the kernel maps around a page that is touched.
WINDOW = 65536
HASH = re.compile(r"17h[0-9a-f]{16}E.*$")


def symbols(lines):
    """The symbols in what callgrind wrote."""
    names, run = {}, set()
    for line in lines:
        if found := FUNCTION.match(line):
            number, name = found.groups()
            run.add(number)
            if name:
                names[number] = name.split("'")[0]
    return {names[number] for number in run}


def of_rendering(program, chart):
    """The symbols that one rendering ran."""
    with tempfile.NamedTemporaryFile("r") as out:
        argv = ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={out.name}", program, "template", "rel", chart]
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return symbols(out)


def of_operator(folder):
    """The symbols that an operator ran."""
    run = set()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as out:
            run |= symbols(out)
    return run


class Program:
    """Bytes of each Rust function, and of all that have one name without their hashes."""

    def __init__(self, path):
        self.size = sizes(path)
        self.total = collections.Counter()
        for symbol, bytes_ in self.size.items():
            self.total[HASH.sub("", symbol)] += bytes_

    def names(self, times):
        """How often a name was run, of how often each symbol was."""
        often, run = collections.Counter(), collections.Counter()
        for symbol, count in times.items():
            if symbol in self.size:
                name = HASH.sub("", symbol)
                often[name] = max(often[name], count)
                run[name] += self.size[symbol]
        # A generic function of the standard library has one name and up to thousands of bodies, of which few are run.
        return {n: c for n, c in often.items() if run[n] * 4 >= self.total[n] or self.total[n] < WINDOW}


def sizes(program):
    """Bytes of each Rust function of the program."""
    out = subprocess.run(["nm", "--print-size", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT" and HASH.search(row[3])}


def main():
    path, operator, *charts = sys.argv[1:]
    program = Program(path)
    used = collections.Counter()
    for chart in charts:
        used.update(of_rendering(path, chart))
    often = {name: count for name, count in program.names(used).items() if count > 1}
    rendering = sorted(often, key=lambda name: (-often[name], name))
    operating = sorted(program.names(collections.Counter(of_operator(operator))).keys() - often.keys())
    if not rendering or not operating:
        sys.exit("callgrind saw nothing of a rendering, or of an operator")
    print("/* Made by `make layout`: what a rendering runs, the most common first, goes next to each other, and then what an operator runs.")
    print("   See benches/layout.py. */")
    print("SECTIONS {")
    for section, names in (("rendering", rendering), ("operator", operating)):
        print(f"  .text.{section} : {{")
        for name in names:
            print(f"    *(.text.{name}17h*)")
        print("  }")
        print(f"{section}: {len(names)} names, {sum(program.total[name] for name in names)} bytes", file=sys.stderr)
    print("}\nINSERT BEFORE .text;")


main()
