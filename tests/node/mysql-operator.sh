#!/usr/bin/env bash
# Deploys an operator of charts/mysql and hungry/ on the node, which carries out notices, as a user makes one: mysql-operator.sh TILLERMAN_BINARY AGENT_BINARY FOLDER
# FOLDER gets the images (images/) and the project (mysql-operator/) that `tillerman init` makes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
usage="usage: mysql-operator.sh TILLERMAN_BINARY AGENT_BINARY FOLDER"
bin=$(realpath "${1:?$usage}") agent=$(realpath "${2:?$usage}") folder=$(realpath "${3:?$usage}")
. "$top/tests/cluster/env.sh"
. "$top/tests/cluster/lib.sh"
export KUBECONFIG=$STATE/admin.kubeconfig
show() { printf '$ %s\n' "$*"; "$@"; }
"$here/mysql-images.sh" "$bin" "$agent" "$folder/images"
"$here/mail-image.sh" "$folder/images/mailpit.tar"
node_ctr "$folder/bin"
ln -sf "$bin" "$folder/bin/tillerman"
export PATH=$folder/bin:$TOOLS:$PATH LOAD=containerd
"$bin" image --bare --tag localhost/tillerman:test --format oci-archive --output "$folder/images/tillerman.tar" >/dev/null
for archive in "$folder"/images/*.tar; do ctr -n k8s.io images import "$archive" >/dev/null; done
rm -rf "$folder/mysql-operator"
mkdir "$folder/mysql-operator"
cd "$folder/mysql-operator"
show tillerman init --notices --domain tillerman.dev --group databases --version v1alpha1 --kind MySQLCluster --plural mysqlclusters --helm-chart "$top/charts/mysql"
show tillerman create api --group test --version v1alpha1 --kind Hungry --plural hungries --helm-chart "$here/hungry"
# The image of the Jobs is the operator author's to say.
sed -i 's|tillerman:0.1.0|localhost/tillerman:test|' watches.yaml
show make image-load deploy >/dev/null
kubectl -n mysql-operator-system rollout status deployment/mysql-operator-controller-manager --timeout=120s >/dev/null
