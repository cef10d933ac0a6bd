#!/usr/bin/env python3
"""Which functions a rendering and an operator run, as a linker script that puts them next to each other:
layout.py TILLERMAN MAP OPERATOR CHART...

The program is some 30 MB, of which a rendering runs one and an operator four, spread over all of it; a page that is touched
first costs microseconds, and the kernel maps those around it as well, which count as the operator's memory. What is run is found
by callgrind, as addresses; MAP, which the linker wrote, says what lies there: a section is a function, or a file of the C library.
Sections are named (as rustc's "v0" has it) without the hashes of crates, so that the script outlives changes of the code: a
function it does not know, or knows in vain, is only where the linker would have put it. OPERATOR is a folder of what callgrind
wrote of an operator.
"""
import bisect, collections, os, re, subprocess, sys, tempfile

# A line of MAP: address, load address, size, alignment; and a file with the section in it, which is indented less than symbols are.
INPUT = re.compile(r" *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+ {9}(\S.*):\((\.text\S*)\)$")


class Sections:
    """The sections of code that the linker found, in the order of their addresses."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as lines:
            found = [match.groups() for match in map(INPUT.match, lines) if match]
        rows = ((int(at, 16), int(size, 16), pattern(file, name)) for at, size, file, name in found)
        self.rows = sorted(row for row in rows if row[2])
        self.starts = [row[0] for row in self.rows]

    def run(self, lines):
        """Those (by index) that ran, in what callgrind wrote."""
        addresses = {int(line.split(None, 1)[0], 16) for line in lines if line.startswith("0x")}
        return {i for a in addresses if (i := bisect.bisect(self.starts, a) - 1) >= 0 and a < sum(self.rows[i][:2])}


def pattern(file, section):
    """What the linker calls the section in any build: without what LLVM adds, the hash of a function (of the standard library), and
    those of crates. None of assembly, which is one section."""
    if archive := re.search(r"/(lib[a-z]+\.a)\((.*)\)$", file):
        return f"*{archive[1]}:{archive[2]}({section})"
    if not section.startswith(".text."):
        return None
    section = re.sub(r"[.]llvm[.]\d+$", "", section)
    section = re.sub(r"17h[0-9a-f]{16}E$", "17h", section)
    return f"*({re.sub(r'Cs[0-9A-Za-z]+_(?=[0-9])', 'Cs*_', section)}*)"


def rendering(program, chart):
    """What callgrind writes of a rendering."""
    with tempfile.NamedTemporaryFile("r") as out:
        callgrind = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", f"--callgrind-out-file={out.name}"]
        argv = [*callgrind, program, "template", "rel", chart, "--namespace", "ns"]
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        yield from out


def operating(folder):
    """What callgrind wrote of an operator."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as out:
            yield from out


def main():
    program, linked, operator, *charts = sys.argv[1:]
    sections = Sections(linked)
    used = collections.Counter()
    for chart in charts:
        used.update(sections.run(rendering(program, chart)))
    often = sorted((i for i, count in used.items() if count > 1), key=lambda i: (-used[i], sections.rows[i][2]))
    others = sorted(sections.run(operating(operator)) - set(often), key=lambda i: sections.rows[i][2])
    if not often or not others:
        sys.exit("callgrind saw nothing of a rendering, or of an operator")
    print("/* Made by `make layout`: what a rendering runs, the most common first, goes next to each other, and then what an operator runs.")
    print("   See benches/layout.py. */")
    print("SECTIONS {")
    for title, run in (("rendering", often), ("operator", others)):
        print(f"  .text.{title} : {{")
        for name in dict.fromkeys(sections.rows[i][2] for i in run):
            print(f"    {name}")
        print("  }")
        print(f"{title}: {len(run)} sections, {sum(sections.rows[i][1] for i in run)} bytes", file=sys.stderr)
    print("}\nINSERT BEFORE .text;")


main()
