#!/usr/bin/env python3
"""Grids of cases for `diff ORACLE replay FILE`: grids.py NAME > FILE.

Chance seldom meets what lies beside the beaten path of one function; a grid goes over all of it. `make fuzz-grids` compares all of
them with Helm. What differs becomes a row of tests/data/functions.jsonl.
"""

import itertools
import json
import random
import sys

VALUES = {"n": None, "f": 1.5, "l": [1, "a", None, {"k": "v"}], "d": {"a": 1, "b": None, "c": {"d": [True]}}}
TIME = '((toDate "2006-01-02" "2021-07-01").UTC)'
FUNCTIONS = """
abbrev abbrevboth add add1 add1f addf adler32sum all and any append atoi b32dec b32enc b64dec b64enc base biggest buildCustomCert
call camelcase cat ceil date_modify decryptAES chunk clean coalesce compact concat contains dateModify dateInZone deepCopy deepEqual default dict dig dir div
divf duration durationRound empty eq ext fail first float64 floor fromJson fromJsonArray fromToml fromYaml fromYamlArray ge get gt has
hasKey hasPrefix hasSuffix html include indent index initial initials int int64 isAbs join js kebabcase keys kindIs kindOf last le len
list lower lt max maxf merge mergeOverwrite min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst
mustFromJson mustHas mustInitial mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind mustRegexFindAll
mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToDate mustToJson
mustToPrettyJson mustToRawJson mustToToml mustToYaml mustUniq mustWithout must_date_modify ne nindent nospace not omit or osBase osClean osDir osExt
osIsAbs pick pluck plural prepend print printf println push quote regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll
regexReplaceAllLiteral regexSplit repeat replace required rest reverse round semver semverCompare seq set sha1sum sha256sum sha512sum
slice snakecase sortAlpha split splitList splitn squote sub subf substr swapcase ternary title toDate toDecimal toJson toPrettyJson
toRawJson toString toStrings toToml toYaml toYamlPretty trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf
uniq unixEpoch unset until untilStep untitle upper urlJoin urlParse urlquery values without wrap wrapWith
""".split()
# Those that tell the time when they are given none.
FUNCTIONS = [name for name in FUNCTIONS if name not in ("dateInZone", "unixEpoch")]
ARGUMENTS = [
    "nil", "true", "0", "-1", "3", "1.5", '""', '"a"', '"a,b c"', '"12"', '"{{ . }}"', r'"\xff"', "(list)", '(list 1 "a" nil)',
    '(list "b" "a" "b")', "(dict)", '(dict "a" 1 "b" (dict "c" 2))', ".Values.l", ".Values.d", ".Values.n", ".Values.f", TIME,
    '(semver "1.2.3")', "(until 2)", '(splitList "," "x,y")', ".Chart", ".Release", ".Files", ".Capabilities.APIVersions", "1i", "'c'",
    "(int64 5)", '(list (list 1) (dict "k" "v"))',
]
FEW = ["nil", "true", "2", "1.5", '""', '"a,b"', '"%s-1"', '(list "a" 1 nil)', '(dict "a" 1)', ".Values.l", ".Values.d", ".Values.n", TIME]


def functions():
    """Each function with none, one and two of many arguments, and three of a few."""
    lists = itertools.chain([()], ((a,) for a in ARGUMENTS), itertools.product(ARGUMENTS, repeat=2), itertools.product(FEW, repeat=3))
    for arguments, name in itertools.product(list(lists), FUNCTIONS):
        call = " ".join((name, *arguments))
        yield f'{{{{ $r := ({call}) }}}}{{{{ printf "%T %#v " $r $r }}}}{{{{ {call} }}}}', VALUES


def formats():
    """printf: flags, widths, precisions and verbs with values of all kinds."""
    flags = ["".join(c) for n in range(6) for c in itertools.combinations("#+- 0", n)]
    verbs = "v T t d b c o O q x X U e E f F g G s w y ! é %".split()
    values = ARGUMENTS + ["1e21", "-0.0", "123456.789", "0x10FFFF", "-9223372036854775808", f"(list {TIME})", f'(dict "t" {TIME})']
    for flag, width, precision, verb in itertools.product(flags, ["", "3", "12", "012"], ["", ".", ".0", ".2", ".12"], verbs):
        text = json.dumps(f"%{flag}{width}{precision}{verb}", ensure_ascii=False)
        yield "\n".join(f"{{{{ printf {text} {value} }}}}" for value in values), VALUES


def tokens():
    """Up to three of a template's tokens in one action, and longer sequences at random."""
    all_ = """if else end range with define template block break continue nil true . .Values .Values.d $ $x := = , | ( ) "a" `b` 'c' 1
    1.5 -1 1i len and not printf x.y .5 .. $x.y /* @ " 0x - "t" .Values.l $i 1.a (1).b nil.x true.x""".split() + ["\n"]
    for count in (1, 2, 3):
        for some in itertools.product(all_, repeat=count):
            yield "{{ " + " ".join(some) + " }}", VALUES
    for _ in range(150_000):
        text = random.choice(["", "{{ $x := .Values.d }}"])
        for _ in range(random.randint(2, 4)):
            some = (random.choice(all_) for _ in range(random.randint(1, 5)))
            left, right = random.choice(["{{", "{{", "{{-"]), random.choice(["}}", "}}", "-}}"])
            text += random.choice(["", "x", " \n"]) + f"{left} " + random.choice(["", " ", " ", "  "]).join(some) + f" {right}"
        yield text, VALUES


def texts():
    """Texts that mean something to YAML, JSON or TOML: written, read, and through the functions that take any text."""
    parts = [*"a0-:# \n\t'\"\\{}[],&*!|>%@`?~.=<é\u2028\x85\x00\x07", "null", "true", "no", "1e3", "0x1", "\r", "  ", "---", "...",
             "2001-01-01", ".inf", "1_0", "0o7", "<<", "y", "\ufeff", "🦀"]  # fmt: skip
    all_ = ["".join(c) for n in (0, 1, 2) for c in itertools.product(parts, repeat=n)]
    all_ += ["".join(random.choices(parts, k=random.randint(3, 8))) for _ in range(20_000)]
    write = "{{ toYaml .Values }}\n{{ toJson .Values }}\n{{ toYamlPretty .Values }}{{ toToml .Values }}" \
        "{{ range .Values.l }}{{ quote . }}{{ squote . }}{{ toRawJson . }}{{ end }}"  # fmt: skip
    for four in zip(*[iter(all_)] * 4):
        yield write, {"l": four, "d": {text: text for text in four}, "n": {"k": [four, {"x": four[0]}]}}
    readers = ['fromYaml $t | toJson', 'fromYamlArray $t | toJson', 'fromJson $t | toJson', 'fromToml $t | toJson',
               'printf "a: %s" $t | fromYaml | toJson', 'printf "- %s\\n- b" $t | fromYamlArray | toJson',
               'printf "a = %s" $t | fromToml | toJson']  # fmt: skip
    takers = "int float64 atoi kebabcase snakecase camelcase title untitle initials swapcase nospace html js urlquery base dir ext clean b32enc"
    calls = readers + [f"{name} $t" for name in takers.split()] + ["wrap 3 $t", "abbrev 4 $t", "trunc -2 $t", 'splitList "a" $t']
    read = "{{ $t := .Values.t }}" + "|".join(f"{{{{ {call} }}}}" for call in calls)
    for text in all_:
        yield read, {"t": text}


def mixed(parts, lengths, count):
    """All sequences of one and two parts, and longer ones at random."""
    some = ("".join(random.choices(parts, k=random.randint(*lengths))) for _ in range(count))
    return itertools.chain(parts, ("".join(two) for two in itertools.product(parts, repeat=2)), some)


def languages():
    """Versions and constraints, regular expressions, layouts of times, durations, URLs."""
    versions = [".".join(c) for n in (1, 2, 3, 4) for c in itertools.product("01x*", repeat=n)]
    versions += ["v1.2.3", "V1.2", "1.2.3-alpha.1", "1.2.3-01", "1.2.3+b.1", "", ".", "a", "1.2.", "1..2", " 1.2", "1.2.3 ", "1.2.3-",
                 "1.2.3-a..b", "00.1.2", "1.2.3-é", "18446744073709551615.0.0", "18446744073709551616.0.0"]  # fmt: skip
    one = [sign + v for sign in ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", "> ", "~ "] for v in versions]
    several = (random.choice([", ", " ", " || ", "||", ",", " - ", "  "]).join(random.choices(one, k=random.randint(2, 3))) for _ in range(15_000))
    for constraint in itertools.chain(one, several):
        for version in random.sample(["1.2.3", "0.0.0", "1.0.0-alpha.1", "2.1.0+x", "1.1.1-rc.2", "v0.1"], 2):
            yield "{{ semverCompare .Values.c .Values.v }}", {"c": constraint, "v": version}
    for version in (v + end for v in versions for end in ["", "-0", "-alpha.1", "-rc", "+b", "-a+b", "-01", "-", "+", "-x"]):
        yield '{{ $s := semver .Values.v }}{{ $s }} {{ $s.Original }} {{ $s.IncPatch }} {{ $s.IncMinor }} {{ printf "%#v" $s }}', {"v": version}
    atoms = ["a", ".", "b*", "[ab]", "[^a]", "(a)", "(?:b)", "a+?", "^", "$", r"\b", r"\d", r"\pL", "(?i)A", "a{1,2}", "|", r"\x61",
             "[[:alpha:]]", "(?P<n>a)", r"\Q.\E", "[a", "(", "*", "\\", "{2}", "a{2,1}", "(?s).", r"\z", "[]a]", r"\1", "(?=a)", "é",
             "[é-í]", "(?U)a+", "a**", r"\C", r"\p{Greek}", r"[\d-z]", "x*"]  # fmt: skip
    inputs = ["", "a", "ab ba aab", "é.íA\n1", "xxx", "a.b|c"]
    calls = ["regexMatch $p .", "regexFindAll $p . -1 | toJson", "regexFind $p . | quote", 'regexReplaceAll $p . "<${1}$0>" | quote',
             'regexReplaceAllLiteral $p . "$1" | quote', "regexSplit $p . -1 | toJson", "regexSplit $p . 2 | toJson"]  # fmt: skip
    every = "{{ $p := .Values.p }}{{ range .Values.i }}" + "".join(f"{{{{ {call} }}}}" for call in calls) + "{{ end }}"
    for pattern in mixed(atoms, (3, 3), 6000):
        yield every, {"p": pattern, "i": inputs}
        yield '{{ mustRegexMatch .Values.p "ab" }}', {"p": pattern}
    chunks = ["2006", "06", "Jan", "January", "01", "1", "_2", "02", "2", "002", "__2", "15", "03", "3", "04", "4", "05", "5", ".000",
              ".999", ",00", "PM", "pm", "MST", "-0700", "-07:00", "Z07:00", "Z0700", "-07", "Z07", "-07:00:00", "Z070000", "Mon",
              "Monday", " ", "T", "-", "x", "é", ".", "0", "200", "Janet", "Mondayx", "_2006", "150405", "000", ".0", ".9"]  # fmt: skip
    times = ["2021-07-01T10:02:03.123456789Z", "1999-12-31T23:59:59+05:30", "0001-01-01T00:00:00Z", "2024-02-29T00:00:00-08:00"]
    parse = 'toDate "2006-01-02T15:04:05Z07:00" .'
    for layout in mixed(chunks, (3, 6), 8000):
        yield f"{{{{ range .Values.t }}}}{{{{ $t := {parse} }}}}[{{{{ $t.Format $.Values.l }}}}][{{{{ $t.UTC.Format $.Values.l }}}}]{{{{ end }}}}", {"l": layout, "t": times}
        text = "".join(random.choices([*chunks, "12", "+23", "7", "+01:30", "UTC"], k=random.randint(1, 3)))
        yield "{{ (mustToDate .Values.l .Values.s).UTC }}", {"l": layout, "s": text}
    numbers, units = ["1", "-1", "1.5", ".5", "1.", "", "99999999999", "0"], ["h", "m", "s", "ms", "us", "µs", "μs", "ns", "d", "", " ", "H"]
    for parts in itertools.product(numbers, units, ["", "1s", "30m", "x"]):
        yield '{{ .Values.d | duration }} {{ durationRound .Values.d }} {{ dateModify .Values.d (toDate "2006" "2021") | date "2006-01-02 15:04:05" }}', {"d": "".join(parts)}
        yield '{{ $d := mustToDuration .Values.d }}{{ $d }} {{ $d.Hours }} {{ $d.Round 1000000000 }} {{ printf "%v %d %s %q" $d $d $d $d }}', {"d": "".join(parts)}
    pieces = ["http", "HTTP", "h+1", "1a", "", ":", "//", "/", "?", "#", "@", "a.b", "[::1]", "[", "%41", "%zz", "%", "a b", "é",
              "user:pa ss@", "u:p@", "host:80", "host:", "host:a", "..", "?a=b", "#f", "mailto:x", "*", "\x7f", "\n", "/a//b",
              "[fe80::1%25en0]"]  # fmt: skip
    for url in mixed(pieces, (3, 5), 10_000):
        yield "{{ urlParse .Values.u | toJson }}", {"u": url}
        yield "{{ $u := urlParse .Values.u }}{{ urlJoin $u }}", {"u": url}


GRIDS = {grid.__name__: grid for grid in (functions, formats, tokens, texts, languages)}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in GRIDS:
        sys.exit(f"usage: grids.py {'|'.join(GRIDS)}")
    random.seed(1)
    for template, values in GRIDS[sys.argv[1]]():
        files = {"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.3\n", "templates/NOTES.txt": template}
        print(json.dumps({"files": files, "values": values}))


main()
