#!/usr/bin/env python3
"""Measures rendering beside Helm and prints the table of the README: render.py TILLERMAN HELM IN_PROCESS GO_PROGRAM CHARTS

CHARTS is the folder of the conformance corpus that holds cases.jsonl; its charts are expected unpacked below the working
directory. Charts whose templates make keys, certificates or bcrypt hashes are left out: they measure randomness.
(a) the command line: `template rel CHART --namespace ns`, the two programs in turn, the shortest of three runs;
(b) in process: load, render and sort, the shortest of five runs; and rendering a loaded chart once more.
Memory is the peak resident size of the command line's process, on the charts where Helm needs most.
"""
import json, os, re, statistics, subprocess, sys, time

KEYS = re.compile(
    rb"\b(genCA|genCAWithKey|genSignedCert|genSignedCertWithKey|genSelfSignedCert|genSelfSignedCertWithKey|genPrivateKey"
    rb"|buildCustomCert|derivePassword|bcrypt|htpasswd)\b"
)


def makes_keys(chart):
    for folder, _, names in os.walk(chart):
        if "/templates" not in folder + "/":
            continue
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if KEYS.search(file.read()):
                    return True
    return False


def charts(cases):
    with open(cases, encoding="utf-8") as file:
        all_cases = [json.loads(line) for line in file]
    defaults = [c for c in all_cases if c["group"] == "default" and c["exit"] == 0]
    return [(c["chart"], "--skip-schema-validation" in c["argv"]) for c in defaults if not makes_keys(c["chart"])]


def seconds(argv, environment):
    """How long one process takes, from its start to its end. `subprocess` would add a millisecond of its own to each."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    start = time.perf_counter()
    child = os.posix_spawn(argv[0], argv, environment, file_actions=null)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"{argv}: ended with {os.waitstatus_to_exitcode(status)}")
    return took


def peak(argv, environment):
    """Peak resident MiB of one process. A process counts what its parent had when it was made, so a small one starts it."""
    argv = ["/usr/bin/time", "-f", "%M", *argv]
    child = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, check=True)
    return int(child.stderr.split()[-1]) / 1024


def command_line(programs, all_charts, runs=3):
    environment = {"PATH": os.environ["PATH"], "HOME": os.getcwd(), "TZ": "UTC"}
    times = {name: {} for name in programs}
    memory = {name: {} for name in programs}
    for chart, skip_schema in all_charts:
        flags = ["--skip-schema-validation"] if skip_schema else []
        argv = ["template", "rel", chart, "--namespace", "ns", *flags]
        for _ in range(runs):
            for name, program in programs.items():
                took = seconds([program, *argv], environment) * 1e3
                times[name][chart] = min(took, times[name].get(chart, took))
        for name, program in programs.items():
            memory[name][chart] = peak([program, *argv], environment)
    return times, memory


def in_process(program, all_charts, runs=5):
    rows = {}
    for skip in (False, True):
        some = [chart for chart, skip_schema in all_charts if skip_schema == skip]
        environment = {"PATH": os.environ["PATH"], **({"SKIP_SCHEMA": "1"} if skip else {})}
        out = subprocess.run([program, str(runs), *some], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        for line in out.decode().splitlines():
            chart, *parts = line.split("\t")
            rows[chart] = [int(part) / 1e6 for part in parts]
    return rows


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def row(title, helm, ours):
    cells = [title]
    for q in (0.5, 0.9, 0.99):
        cells.append(f"{quantile(helm, q):.2f} → {quantile(ours, q):.2f} ({quantile(helm, q) / quantile(ours, q):.1f}×)")
    cells.append(f"{sum(helm) / 1e3:.2f} → {sum(ours) / 1e3:.2f} ({sum(helm) / sum(ours):.1f}×)")
    print("| " + " | ".join(cells) + " |")


def main():
    tillerman, helm, rust, go, cases = sys.argv[1:6]
    chosen = charts(cases)
    print(f"{time.strftime('%F')}, {os.cpu_count()} cores, {len(chosen)} charts without keys\n")
    helm_rows, our_rows = in_process(go, chosen), in_process(rust, chosen)
    both = [chart for chart, _ in chosen if chart in helm_rows and chart in our_rows]
    if len(both) != len(chosen):
        sys.exit(f"only {len(both)} of {len(chosen)} charts were rendered by both")
    times, memory = command_line({"helm": helm, "tillerman": tillerman}, chosen)
    print("| Helm → Tillerman | p50 ms | p90 ms | p99 ms | total s |\n|---|---|---|---|---|")
    row("command line", [times["helm"][c] for c in both], [times["tillerman"][c] for c in both])
    slowest = max(both, key=lambda c: sum(helm_rows[c]))
    for title, some in (("", both), (", without the slowest", [c for c in both if c != slowest])):
        row(f"load{title}", [helm_rows[c][0] for c in some], [our_rows[c][0] for c in some])
        row(f"load, render and sort{title}", [sum(helm_rows[c]) for c in some], [sum(our_rows[c][:2]) for c in some])
        row(f"render and sort again{title}", [sum(helm_rows[c][1:]) for c in some], [our_rows[c][2] for c in some])
    print(f"\nThe slowest chart is {slowest}: {sum(helm_rows[slowest]):.1f} → {sum(our_rows[slowest][:2]):.1f} ms in process.")
    worst = min(both, key=lambda c: sum(helm_rows[c]) / sum(our_rows[c][:2]))
    slower = sum(sum(helm_rows[c]) < sum(our_rows[c][:2]) for c in both)
    print(
        f"Helm is faster on {slower} charts; nearest: {worst}, {sum(helm_rows[worst]):.2f} → {sum(our_rows[worst][:2]):.2f} ms."
    )
    print("\n| peak resident size, MiB | Helm | Tillerman | ratio |\n|---|---|---|---|")
    for chart in sorted(both, key=lambda c: -memory["helm"][c])[:5]:
        h, t = memory["helm"][chart], memory["tillerman"][chart]
        print(f"| {chart.removeprefix('charts/')} | {h:.0f} | {t:.0f} | {h / t:.1f}× |")
    middle = [statistics.median(memory[name].values()) for name in ("helm", "tillerman")]
    print(f"| median of all | {middle[0]:.0f} | {middle[1]:.0f} | {middle[0] / middle[1]:.1f}× |")


main()
