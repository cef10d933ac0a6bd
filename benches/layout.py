#!/usr/bin/env python3
"""Which functions a rendering and an operator run, as a linker script that puts them next to each other:
layout.py TILLERMAN OPERATOR CHART...

The program is some 30 MB, of which a rendering runs one and an operator four, spread over all of it; a page that is touched
first costs microseconds, and the kernel maps those around it as well, which count as the operator's memory. Functions are
found with callgrind, and named (as rustc's "v0" has it) without the hashes of crates, so that the script outlives changes of
the code: a function it does not know, or knows in vain, is only where the linker would have put it. OPERATOR is a folder of
what callgrind wrote of an operator.
"""
import collections, os, re, subprocess, sys, tempfile

FUNCTION = re.compile(r"c?fn=\((\d+)\)(?: (.*))?$")


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


def sizes(program):
    """Bytes of each Rust function of the program."""
    out = subprocess.run(["nm", "--print-size", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT" and row[3].startswith(("_R", "_ZN"))}


def pattern(symbol):
    """What the symbol is in any build: without what LLVM adds, the hash of a function (of the standard library), and those of crates."""
    symbol = re.sub(r"[.]llvm[.]\d+$", "", symbol)
    symbol = re.sub(r"17h[0-9a-f]{16}E$", "17h*", symbol)
    return re.sub(r"Cs[0-9A-Za-z]+_(?=[0-9])", "Cs*_", symbol)


def main():
    path, operator, *charts = sys.argv[1:]
    size = sizes(path)
    used = collections.Counter()
    for chart in charts:
        used.update(of_rendering(path, chart) & size.keys())
    rendering = sorted((s for s, count in used.items() if count > 1), key=lambda s: (-used[s], s))
    operating = sorted((of_operator(operator) & size.keys()) - set(rendering))
    if not rendering or not operating:
        sys.exit("callgrind saw nothing of a rendering, or of an operator")
    print("/* Made by `make layout`: what a rendering runs, the most common first, goes next to each other, and then what an operator runs.")
    print("   See benches/layout.py. */")
    print("SECTIONS {")
    for section, run in (("rendering", rendering), ("operator", operating)):
        print(f"  .text.{section} : {{")
        for name in dict.fromkeys(pattern(symbol) for symbol in run):
            print(f"    *(.text.{name.rstrip('*')}*)")
        print("  }")
        print(f"{section}: {len(run)} functions, {sum(size[symbol] for symbol in run)} bytes", file=sys.stderr)
    print("}\nINSERT BEFORE .text;")


main()
