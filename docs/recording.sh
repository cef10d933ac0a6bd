#!/usr/bin/env bash
# Records docs/tillerman.svg: recording.sh TILLERMAN_BINARY
# Runs each command of the session below on a control plane of its own, and draws what it printed, line by line at the time it came.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
bin=$(realpath "${1:?usage: recording.sh TILLERMAN_BINARY}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
work=$(mktemp -d)
operator=
end() {
	[ -z "$operator" ] || kill "$operator" 2>/dev/null || true
	[ ! -e "$work/cluster/etcd.pid" ] || "$top/tests/cluster/down.sh" "$work/cluster" >/dev/null
	rm -rf "$work"
}
trap end EXIT
"$top/tests/cluster/up.sh" "$work/cluster" >&2
export KUBECONFIG=$work/cluster/admin.kubeconfig
mkdir "$work/bin" && ln -s "$bin" "$work/bin/tillerman"
PATH=$work/bin:$TOOLS:$PATH
cd "$top/examples/helm-chart"

# Lines of TIME<tab>KIND<tab>TEXT, in milliseconds of the playback: the pauses for reading are longer than the commands took. What
# `quietly` does is waited for, and not shown.
clock=600
note() { printf '%d\t%s\t%s\n' "$clock" "$1" "$2" >>"$work/session"; }
say() {
	clock=$((clock + 500))
	note comment "# $*"
	clock=$((clock + 900))
}
run() { # run COMMAND: as it is typed
	local started ended line
	note command "\$ $1"
	clock=$((clock + 500))
	started=$(date +%s%3N)
	# Whether it fails is seen: the recording ends here.
	bash -c "$1" >"$work/out" 2>&1 || { cat "$work/out" >&2; die "the session failed at: $1"; }
	ended=$(date +%s%3N)
	clock=$((clock + ended - started))
	while IFS= read -r line; do
		note output "$line"
		clock=$((clock + 60))
	done <"$work/out"
	clock=$((clock + 1100))
}
quietly() { bash -c "$1" >"$work/out" 2>&1 || { cat "$work/out" >&2; die "the session failed at: $1"; }; }

say "A chart becomes an API"
run "tillerman crd chart --group examples.tillerman.dev --kind Web | kubectl apply -f -"
quietly "kubectl wait crd/webs.examples.tillerman.dev --for=condition=Established"
# Typed and not waited for.
note command "\$ tillerman run --watches-file watches.yaml &"
clock=$((clock + 1600))
# The paths in this file are relative to the repository.
(cd "$top" && exec tillerman run --watches-file examples/helm-chart/watches.yaml --metrics-bind-address 0 --health-probe-bind-address 0) \
	>"$work/operator.log" 2>&1 &
operator=$!
say "Its values are the spec of a custom resource"
run "tail -n 4 cr.yaml"
run "kubectl apply -f cr.yaml"
quietly "kubectl wait web/shop --for=condition=Deployed --timeout=60s"
run "kubectl get deployment,service -l app.kubernetes.io/instance=shop -o name"
say "A change arrives"
run "kubectl patch web shop --type=merge -p '{\"spec\":{\"replicaCount\":5}}'"
quietly "kubectl wait deployment/shop-web --for=jsonpath='{.spec.replicas}'=5 --timeout=60s"
run "kubectl get deployment shop-web -o jsonpath='{.spec.replicas} replicas{\"\\n\"}'"
say "Drift is repaired"
run "kubectl delete deployment shop-web"
quietly "kubectl wait deployment/shop-web --for=create --timeout=60s"
quietly "kubectl wait web/shop --for=jsonpath='{.status.conditions[?(@.type==\"Drifted\")].reason}'=Repaired --timeout=60s"
run "kubectl get deployment shop-web -o jsonpath='{.metadata.name}: {.spec.replicas} replicas{\"\\n\"}'"
say "The release is Helm's"
run "helm history shop | cut -f1,3-4,6"

awk -F '\t' -v title="Tillerman: a chart becomes an operator" '
	function escaped(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
	{ time[NR] = $1; kind[NR] = $2; text = $0; sub(/^[^\t]*\t[^\t]*\t/, "", text); gsub(/\t/, "  ", text); line[NR] = text }
	END {
		step = 19; width = 860; y = 52
		for (i = 1; i <= NR; i++) { if (kind[i] == "comment" && i > 1) y += 9; at[i] = y; y += step }
		height = y
		printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", width, height, width, height
		printf "<title>%s</title>\n<style>\n", title
		print "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#d0d7de}"
		print ".comment{fill:#7d8590}.command{fill:#7ee787}"
		# Before its time a line is hidden; a viewer without animation shows all lines.
		print "@keyframes later{from,to{visibility:hidden}}"
		print "@media (prefers-reduced-motion:no-preference){text.at{animation:later steps(1)}}"
		printf "</style>\n<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", width, height
		print "<circle cx=\"20\" cy=\"18\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"40\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/><circle cx=\"60\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>"
		for (i = 1; i <= NR; i++)
			printf "<text class=\"at %s\" x=\"16\" y=\"%d\" style=\"animation-duration:%.2fs\" xml:space=\"preserve\">%s</text>\n", kind[i], at[i], time[i] / 1000, escaped(line[i])
		print "</svg>"
	}' "$work/session" >"$here/tillerman.svg"
echo "$here/tillerman.svg: $(wc -c <"$here/tillerman.svg") bytes, $(wc -l <"$work/session") lines"
