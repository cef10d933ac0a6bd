#!/usr/bin/env bash
# Deploys an operator of charts/php, charts/wordpress and charts/mysql on the node, as a user makes one: php-operator.sh TILLERMAN_BINARY AGENT_BINARY FOLDER [notices]
# With `notices` it carries out notices, too.
# FOLDER gets the project (stack-operator/) that `tillerman init` makes. The images of PHP are those of php-images.sh,
# or those that PHP_IMAGES names.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
usage="usage: php-operator.sh TILLERMAN_BINARY AGENT_BINARY FOLDER"
bin=$(realpath "${1:?$usage}") agent=$(realpath "${2:?$usage}") folder=$(realpath "${3:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
export KUBECONFIG=$STATE/admin.kubeconfig
show() { printf '$ %s\n' "$*"; "$@"; }
"$here/mysql-images.sh" "$bin" "$agent" "$folder/images"
# shellcheck disable=SC2086
"$here/php-images.sh" "$IMAGES-php" ${PHP_IMAGES:-}
node_ctr "$folder/bin"
ln -sf "$bin" "$folder/bin/tillerman"
export PATH=$folder/bin:$TOOLS:$PATH LOAD=containerd
for archive in "$folder"/images/*.tar "$IMAGES-php"/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done
rm -rf "$folder/stack-operator"
mkdir "$folder/stack-operator"
cd "$folder/stack-operator"
show tillerman init ${4:+--notices} --domain tillerman.dev --built-in mysql,php,wordpress
show make image-load deploy >/dev/null
kubectl -n stack-operator-system rollout status deployment/stack-operator-controller-manager --timeout=120s >/dev/null
