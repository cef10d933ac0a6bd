#!/usr/bin/env bash
# Writes tests/data/operator-sdk-project.txt: which files operator-sdk makes of the chart in tests/node/project, and which targets its
# Makefile has. operator-sdk is built from its Go module; its plugin for Ansible, whose module is not to be had everywhere, is left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
"$here/build-tools.sh" operator-sdk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Without a cluster it gives its default rights.
export KUBECONFIG=$work/none
"$TOOLS/operator-sdk" init --plugins helm --domain example.com --project-name page-operator
"$TOOLS/operator-sdk" create api --group apps --version v1alpha1 --kind Page --helm-chart "$here/../node/project/helm-charts/page"
{
	find . -type f | sed 's|^./|file |' | sort
	grep -oE '^[a-z-]+:' Makefile | tr -d : | sort -u | sed 's/^/target /'
} >"$here/../data/operator-sdk-project.txt"
