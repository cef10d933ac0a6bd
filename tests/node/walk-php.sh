#!/usr/bin/env bash
# Runs the commands of docs/how-to/php.md, of wordpress.md or of own-kind.md on a real node, in one shell:
# walk-php.sh TILLERMAN_BINARY AGENT_BINARY [wordpress|own-kind]
# No registry is reached from here, so images of Debian's packages have the names that the page and the charts give; the commands are not changed.
# Prints the seconds of each section.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
usage="usage: walk-php.sh TILLERMAN_BINARY AGENT_BINARY [wordpress|own-kind]"
page=${3:-php}
case $page in
php) kinds=phpapps project=php images="php-fpm symfony" ;;
wordpress) kinds=wordpresses project=wordpress images="php-fpm wordpress-6.8" ;;
own-kind) kinds=symfonyapps project=symfony images="php-fpm symfony" ;;
*) echo "$usage" >&2; exit 2 ;;
esac
bin=$(realpath "${1:?$usage}") agent=$(realpath "${2:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
why=$("$top/tests/cluster/node-can.sh") || { echo "no pods run here, so the walk did not: $why"; exit 0; }
need jq jq make make
work=$(mktemp -d)
undo=true
trap '$undo || true; rm -rf "$work"' EXIT
stop_node() { "$top/tests/cluster/node-down.sh"; }
# Made before the node starts, so that it does not idle meanwhile.
"$here/mysql-images.sh" "$bin" "$agent" "$work/images"
# shellcheck disable=SC2086
"$here/php-images.sh" "$IMAGES-php" $images
if [ ! -s "$STATE/node.pid" ] || ! kill -0 "$(cat "$STATE/node.pid")" 2>/dev/null; then undo=stop_node; fi
"$top/tests/cluster/node-up.sh"
node_ctr "$work/bin"
ln -s "$bin" "$work/bin/tillerman"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$work/bin:$TOOLS:$PATH CHECKOUT=$top LOAD=containerd
values() { sed -n "s/^ *$2: //p" "$top/charts/$1/values.yaml" | head -1; }
tillerman=$(sed -n 's/^  image: \(tillerman:.*\)/\1/p' "$top/charts/mysql/values.yaml" | head -1)
"$bin" image --bare --tag "$tillerman" --format oci-archive --output "$work/images/tillerman.tar" >/dev/null
for image in $images; do ln -s "$IMAGES-php/$image.tar" "$work/images/"; done
for archive in "$work"/images/{tillerman,tillerman-agent,mariadb}.tar $(printf "$work/images/%s.tar " $images); do ctr -n k8s.io images import "$archive" >/dev/null; done
named() { ctr -n k8s.io images tag --force "$1" "$2" >/dev/null; }
named localhost/mariadb:10.11.19 docker.io/library/mariadb:10.11.19
named localhost/tillerman-agent:test "docker.io/library/$(values mysql agentImage)"
named localhost/php-fpm:8.2 "docker.io/$(sed -n '/^nginx:/,/^  image:/ s/^  image: //p' "$top/charts/php/values.yaml")"
case $page in
php)
	named localhost/php:8.2 "docker.io/library/$(values php image)"
	named localhost/symfony:5.4 registry.example.com/shop:1.4 ;;
own-kind) named localhost/symfony:5.4 registry.example.com/shop:1.4 ;;
wordpress) named localhost/wordpress:6.8 "docker.io/library/$(values wordpress image)" ;;
esac

# The commands of each section, with a line before them that says when they begin. A block that fails is for the test without a node.
sed '/^<!-- not run: it needs pods/d; s/^<!-- fails -->/<!-- not run: fails -->/' "$top/docs/how-to/$page.md" >"$work/page.md"
blocks "$work/page.md" | sed -E 's/^##+ (.*)/printf "%s \\n" "$SECONDS s  \1"/' >"$work/commands"
[ "$(grep -c '^printf' "$work/commands")" -gt 3 ] || { echo "docs/how-to/$page.md has no commands" >&2; exit 1; }
cd "$work"
{ timeout 900 bash -euo pipefail "$work/commands" </dev/null || { echo failed; false; }; } 2>&1 | tee "$work/output" || {
	kubectl get mysql,"$kinds",jobs,pods,pvc >&2
	kubectl get mysql,"$kinds" -o yaml >&2
	for pod in $(kubectl get pods -o name); do kubectl logs "$pod" --all-containers --prefix --tail=15 >&2 || true; done
	kubectl get events --sort-by=.lastTimestamp | tail -30 >&2
	kubectl -n "$project-operator-system" logs "deployment/$project-operator-controller-manager" --tail=30 >&2 || true
	exit 1
}
left() { kubectl get mysql,"$kinds",jobs,pods,pvc,secrets,configmaps,services -o name 2>/dev/null | grep -v -e /kube-root-ca.crt -e /kubernetes; }
none() { ! left; }
until_ok 120 none || { left >&2; exit 1; }
echo "docs/how-to/$page.md: 1 passed, 0 failed; $SECONDS s"
