#!/usr/bin/env python3
"""`tillerman fleet` on the charts of the large corpus: fleet.py BINARY CASES FOLDER

CASES is the list of cases of the corpus, and FOLDER has its charts. Between a chart and itself, nothing may change. A release that falls
asleep has the same objects, and only its workloads change. Where a default of the chart is increased by
one, fleet must report exactly the objects in which `tillerman template` of both charts differs, which is Helm's output byte for byte.
Prints the charts that differ, and `fleet: N passed, N failed`.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

NUMBER = re.compile(r"^(\w+): ([1-9][0-9]?)$", re.M)
GROUP = re.compile(r"^apiVersion: *[\"']?apps/", re.M)
RELEASE = "name: rel"
# The kinds that sleep changes: always, and unless they are suspended already.
WORKLOADS = {("apps", "Deployment"), ("apps", "StatefulSet")}
OTHERS = {("batch", "CronJob"), ("keda.sh", "ScaledObject")}


def run(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def objects(binary, chart):
    """The objects of a chart by kind and name, each with its text."""
    code, out, _ = run(binary, "template", "rel", chart, "--namespace", "ns", "--is-upgrade", "--no-hooks")
    if code:
        return None
    found = {}
    for document in re.split(r"^---\n", out, flags=re.M):
        kind = re.search(r"^kind: *\"?([\w.]+)", document, re.M)
        name = re.search(r"^metadata:\n(?:  .*\n|\n)*?  name: *[\"']?([^\s\"']+)", document, re.M)
        if kind and name:
            found[(kind[1], name[1])] = document
    return found


def fleet(binary, cr, now, then):
    code, out, err = run(binary, "fleet", cr, "--chart", now, "--kind", "App.examples.dev", "--then-chart", then, "-o", "json", "-n", "ns")
    return code, json.loads(out) if code != 2 else None, err


def asleep(binary, chart, work, cr):
    """What is wrong with the objects of a release that sleeps."""
    sleeps = os.path.join(work, "asleep.yaml")
    with open(cr) as awake, open(sleeps, "w") as file:
        file.write(awake.read().replace(RELEASE, RELEASE + ", annotations: {tillerman.dev/sleep: 'true'}"))
    more = ["--chart", chart, "--kind", "App.examples.dev", "-o", "json", "-n", "ns"]
    code, out, err = run(binary, "fleet", cr, "--then-resources", sleeps, *more)
    if code == 2:
        return f"asleep: {err}"
    changes = [change for change in json.loads(out)["changes"] if change["object"]["name"]]
    kind = lambda change: (change["object"]["group"], change["object"]["kind"])
    wrong = [change for change in changes if change["effect"] != "changed" or kind(change) not in WORKLOADS | OTHERS]
    slept = sum(kind(change) in WORKLOADS for change in changes)
    # API servers no longer serve workloads of other groups, such as extensions/v1beta1.
    is_one = lambda kind, text: kind in {name for _, name in WORKLOADS} and GROUP.search(text)
    workloads = sum(bool(is_one(kind, text)) for (kind, _), text in (objects(binary, chart) or {}).items())
    return f"asleep: {slept} of {workloads} workloads, {wrong}" if wrong or slept != workloads else None


def check(binary, chart, work):
    """Whether a default was changed, and what is wrong."""
    cr = os.path.join(work, "cr.yaml")
    with open(cr, "w") as file:
        file.write(f"apiVersion: examples.dev/v1\nkind: App\nmetadata: {{{RELEASE}, namespace: ns}}\nspec: {{}}\n")
    code, report, err = fleet(binary, cr, chart, chart)
    if code:
        return False, f"to itself: {code} {err} {json.dumps(report)[:300]}"
    if why := asleep(binary, chart, work, cr):
        return False, why
    values = os.path.join(chart, "values.yaml")
    text = open(values, encoding="utf-8", errors="replace").read() if os.path.exists(values) else ""
    number = NUMBER.search(text)
    before = objects(binary, chart)
    if not number or before is None or before != objects(binary, chart):
        return False, None
    other = os.path.join(work, os.path.basename(chart))
    shutil.copytree(chart, other, symlinks=True)
    with open(os.path.join(other, "values.yaml"), "w") as file:
        file.write(text[: number.start(2)] + str(int(number[2]) + 1) + text[number.end(2) :])
    after = objects(binary, other)
    code, report, err = fleet(binary, cr, chart, other)
    if after is None or report is None:
        return True, None if after is None and code == 3 else f"{number[0]}: {code} {err}"
    expected = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    reported = {
        (change["object"]["kind"], change["object"]["name"].replace("{release}", "rel"))
        for change in report["changes"]
        if change["object"]["name"] and change["effect"] != "hook"
    }
    differs = expected ^ reported
    return True, f"{number[0]}: {sorted(differs)}" if differs else None


def main():
    binary, cases, folder = map(os.path.abspath, sys.argv[1:4])
    with open(cases) as file:
        cases = [json.loads(line) for line in file]
    charts = sorted({case["chart"] for case in cases if case["group"] == "default" and case["exit"] == 0})

    def one(chart):
        with tempfile.TemporaryDirectory() as work:
            return chart, *check(binary, os.path.join(folder, chart), work)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(one, charts))
    failed = [(chart, why) for chart, _, why in results if why]
    changed = sum(is_changed for _, is_changed, _ in results)
    for chart, why in failed:
        print(f"{chart}: {why}")
    print(f"a default was changed in {changed} of {len(results)} charts")
    print(f"fleet: {len(results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
