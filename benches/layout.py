#!/usr/bin/env python3
"""Which functions a rendering runs, as a linker script that puts them next to each other: layout.py TILLERMAN CHART...

The program is some 30 MB, of which a rendering runs one, spread over all of it; a page that is touched first costs
microseconds. Functions are found with callgrind, and named without their hash, so that the script outlives changes of the
code: a function it does not know, or knows in vain, is only where the linker would have put it.
"""
import collections, re, subprocess, sys, tempfile

FUNCTION = re.compile(r"c?fn=\((\d+)\)(?: (.*))?$")
# Bytes that the kernel maps around a page that is touched.
WINDOW = 65536
HASH = re.compile(r"17h[0-9a-f]{16}E.*$")


def functions_run(program, chart):
    """The symbols that one rendering ran."""
    with tempfile.NamedTemporaryFile("r") as out:
        argv = ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={out.name}", program, "template", "rel", chart]
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        names, run = {}, set()
        for line in out:
            if found := FUNCTION.match(line):
                number, name = found.groups()
                run.add(number)
                if name:
                    names[number] = name.split("'")[0]
    return {names[number] for number in run}


def sizes(program):
    """Bytes of each Rust function of the program."""
    out = subprocess.run(["nm", "--print-size", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT" and HASH.search(row[3])}


def main():
    program, *charts = sys.argv[1:]
    size = sizes(program)
    used = collections.Counter()
    for chart in charts:
        used.update(functions_run(program, chart) & size.keys())
    total = collections.Counter()
    for name, bytes_ in size.items():
        total[HASH.sub("", name)] += bytes_
    charts_of, run = collections.Counter(), collections.Counter()
    for name, count in used.items():
        short = HASH.sub("", name)
        charts_of[short] = max(charts_of[short], count)
        run[short] += size[name]
    # A generic function of the standard library has one name and up to thousands of bodies, of which few are run.
    kept = [name for name, count in charts_of.items() if count > 1 and (run[name] * 4 >= total[name] or total[name] < WINDOW)]
    kept.sort(key=lambda name: (-charts_of[name], name))
    print("/* Made by `make layout`: what a rendering runs, the most common first, goes next to each other. See benches/layout.py. */")
    print("SECTIONS {\n  .text.rendering : {")
    for name in kept:
        print(f"    *(.text.{name}17h*)")
    print("  }\n}\nINSERT BEFORE .text;")
    print(f"{len(kept)} of {len(charts_of)} names, {sum(total[name] for name in kept)} bytes", file=sys.stderr)


main()
