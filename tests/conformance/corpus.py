#!/usr/bin/env python3
"""The small corpus: charts of our own with what Helm makes of them.

corpus.py record HELM     runs each case of corpus/cases.tsv with Helm 4.3.1 and writes corpus/expected/
corpus.py compare BINARY  runs each with BINARY; standard output, exit code and error message must be Helm's

A case is a line `NAME<tab>ARGUMENT ARGUMENT …`; no argument holds a space, but for what follows `{{`. Standard library only.
"""
import os, pathlib, re, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
EXPECTED = HERE / "expected"
HELM = "v4.3.1"


def cases():
    for line in (HERE / "cases.tsv").read_text().splitlines():
        name, _, arguments = line.partition("\t")
        yield name, re.findall(r"[^\s{]*\{\{.*|\S+", arguments)


def message(err):
    """The error of Helm, without its log and without what it says of deprecated flags."""
    lines = [line for line in err.decode(errors="replace").splitlines() if not re.match(r"level=|Flag --\S+ has been deprecated|WARNING", line)]
    return "\n".join(lines).strip()


def run(program, arguments, home):
    env = {"PATH": os.environ["PATH"], "HOME": home, "TZ": "UTC", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    env |= {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
    done = subprocess.run([program, "template", *arguments], cwd=HERE, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return done.returncode, done.stdout, message(done.stderr)


def record(helm):
    version = subprocess.run([helm, "version", "--template", "{{.Version}}"], capture_output=True, text=True).stdout
    if version != HELM:
        sys.exit(f"error: {helm} is {version or 'no helm'}, and the corpus is recorded with {HELM}")
    EXPECTED.mkdir(exist_ok=True)
    for old in EXPECTED.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as home:
        for name, arguments in cases():
            code, out, error = run(helm, arguments, home)
            (EXPECTED / f"{name}.out").write_bytes(out)
            if code or error:
                (EXPECTED / f"{name}.err").write_text(f"{code}\n{error}\n")


def compare(binary):
    passed, failed = 0, []
    with tempfile.TemporaryDirectory() as home:
        for name, arguments in cases():
            code, out, error = run(binary, arguments, home)
            recorded = EXPECTED / f"{name}.err"
            wanted_code, _, wanted = recorded.read_text().partition("\n") if recorded.exists() else ("0", "", "")
            differs = [what for what, same in (
                ("exit code", str(code) == wanted_code),
                ("output", out == (EXPECTED / f"{name}.out").read_bytes()),
                ("message", error == wanted.strip()),
            ) if not same]
            if differs:
                failed.append(f"{name}: {', '.join(differs)} differ from Helm's")
                if "message" in differs:
                    failed.append(f"  wanted: {wanted.strip()}\n  found:  {error}")
            else:
                passed += 1
    print("\n".join(failed[:40]), end="\n" if failed else "")
    print(f"small corpus: {passed} passed, {sum(not line.startswith('  ') for line in failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", helm]:
            record(helm)
        case ["compare", binary]:
            sys.exit(compare(binary))
        case _:
            sys.exit(__doc__)
