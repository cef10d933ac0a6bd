#!/usr/bin/env bash
# Checks deploy/alerts.yaml and the expressions of deploy/dashboard.json with Prometheus' own tool. That the metrics in them exist
# is shown by tests/operator/metrics.rs on a running operator.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/cluster/env.sh
tests/cluster/build-tools.sh metrics
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{
	printf 'groups:\n- name: dashboard\n  rules:\n'
	# A JSON string is one of YAML; Grafana puts its interval in.
	sed -nE 's/^ *"expr": (.*[^,]),?$/  - {record: "dashboard:expression", labels: {line: "LINE"}, expr: \1}/p' deploy/dashboard.json |
		sed 's/\$__rate_interval/5m/g' | awk '{sub(/LINE/, NR); print}'
} >"$dir/dashboard.yaml"
"$TOOLS/promtool" check rules deploy/alerts.yaml "$dir/dashboard.yaml"
