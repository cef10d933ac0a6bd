#!/usr/bin/env bash
# Shows a site of WordPress of a tenant, in a browser: demo.sh TILLERMAN_BINARY AGENT_BINARY [PICTURES]
# The tenant can edit sites and databases of its namespace, and nothing else. PICTURES is a folder for the pictures that the browser takes.
# The node stays: demo-down.sh removes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../local-node.sh" demo-wordpress "$@"
need mariadb mariadb-client-core
. "$top/examples/stack/browser.sh"
stop() { rm -f "$demo/loading"; browser_stop; wait 2>/dev/null || true; }
trap stop EXIT

step "1. A local cluster with one node"
"$top/tests/cluster/node-up.sh"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH

step "2. One operator for sites and databases"
"$top/tests/node/php-operator.sh" "$bin" "$agent" "$demo"

step "3. A namespace for each tenant, with a quota. Ann can edit sites and databases in hers"
kubectl delete namespace ann bob --ignore-not-found --timeout=120s >/dev/null
kubectl delete pv pictures --ignore-not-found --wait=false >/dev/null
for tenant in ann bob; do
	kubectl create namespace $tenant
	kubectl -n $tenant create quota limits --hard=requests.cpu=1,requests.memory=3Gi,pods=16,persistentvolumeclaims=8
	for kind in wordpress mysqlcluster; do
		kubectl -n $tenant create rolebinding "$kind" --clusterrole="stack-operator-$kind-editor-role" --user=$tenant
	done
done
# The owner of the cluster provides a volume for the pictures, which several pods can use, and one for backups.
kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolume
metadata: {name: pictures}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1Gi}
  storageClassName: by-hand
  hostPath: {path: /tmp/hostpath_pv/pictures, type: DirectoryOrCreate}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: pictures, namespace: ann}
spec: {accessModes: [ReadWriteMany], storageClassName: by-hand, volumeName: pictures, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, namespace: ann}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
EOF
ann() { kubectl --as=ann -n ann "$@"; }
refused() { if "$@" 2>"$demo/refused"; then echo "not refused: $*" >&2; return 1; fi; tail -1 "$demo/refused"; }
for asked in "get secrets" "create deployment other --image=other" "get pods" "-n bob get wordpress"; do
	# shellcheck disable=SC2086
	refused ann $asked
done

step "4. Ann makes a database with two members, and a site on it"
cat >"$demo/site.yaml" <<'EOF'
apiVersion: databases.tillerman.dev/v1alpha1
kind: MySQLCluster
metadata: {name: db}
spec:
  replicas: 2
  image: localhost/mariadb:10.11.19
  agentImage: localhost/tillerman-agent:test
  storage: {size: 1Gi, onDelete: Delete}
  # The quota wants requests of each container.
  pod: {resources: {requests: {cpu: 50m, memory: 256Mi}}}
  applications: [{name: blog}, {name: staging}]
---
apiVersion: apps.tillerman.dev/v1alpha1
kind: WordPress
metadata: {name: blog}
spec:
  host: blog.example.com
  title: Ann's blog
  admin: {email: ann@example.com}
  image: localhost/wordpress:6.1
  nginx: {image: localhost/wordpress:6.1, accessLog: false}
  replicas: 2
  externalRequests: false
  database: {cluster: db}
  uploads: {existingClaim: pictures, accessMode: ReadWriteMany}
  backup: {claimName: backups}
  # The demo sends more comments than WordPress takes from one client.
  muPlugins:
    - {name: comments.php, code: "<?php add_filter('comment_flood_filter', '__return_false', 99);"}
EOF
ready() {
	current() { ann get "$1" -o json | jq -e '.status.observedGeneration == .metadata.generation and any(.status.conditions[]; .type == "Ready" and .status == "True")'; }
	until_ok 300 current "$1" || { ann get "$1" -o yaml >&2; kubectl -n ann get pods,jobs >&2; return 1; }
	ann get "$1"
}
show ann apply -f "$demo/site.yaml"
ready mysqlcluster/db
ready wordpress/blog
ip() { kubectl -n ann get service "$1" -o jsonpath='{.spec.clusterIP}'; }
sql() { MYSQL_PWD=$(kubectl -n ann get secret db-root -o jsonpath='{.data.password}' | base64 -d) mariadb -h "$(ip db-primary)" -u root -N -e "$1"; }
page() { curl -sf --max-time 20 --resolve "$1.example.com:80:$(ip "$1")" "http://$1.example.com$2"; }
browse() {
	browser_stop
	browser_start "$demo/browser" "--host-resolver-rules=MAP $1.example.com $(ip "$1")"
}
# log_in SITE: the owner of the cluster gives Ann the password
log_in() {
	until_ok 60 page "$1" /wp-login.php
	browser_open "http://$1.example.com/wp-login.php"
	browser_type '#user_login' admin
	browser_type '#user_pass' "$(kubectl -n ann get secret "$1-admin" -o jsonpath='{.data.password}' | base64 -d)"
	browser_click '#wp-submit'
	until_ok 30 browser_text '#wpadminbar'
}

step "5. Ann logs in, uploads a picture, and writes a post"
browse blog
log_in blog
browser_picture "$demo/picture.png"
browser_open 'http://blog.example.com/wp-admin/media-new.php?browser-uploader'
browser_type '#async-upload' "$demo/picture.png"
browser_click '#html-upload'
uploaded() { page blog '/index.php?rest_route=/wp/v2/media' | jq -er '.[0].source_url' >"$demo/url"; }
until_ok 60 uploaded
url=$(cat "$demo/url")
browser_open 'http://blog.example.com/wp-admin/post-new.php'
writes="const done = arguments[arguments.length - 1], editor = () => wp.data.select('core/editor');
const write = () => {
	if (!window.wp || !wp.data || !editor() || !editor().getCurrentPostId()) return setTimeout(write, 200);
	wp.data.dispatch('core/editor').editPost({title: 'A day at the sea', status: 'publish',
		content: '<!-- wp:image --><figure class=\"wp-block-image\"><img src=\"$url\" alt=\"\"/></figure><!-- /wp:image -->'});
	wp.data.dispatch('core/editor').savePost().then(() => done(editor().getCurrentPost().link));
};
write();"
post=$(browser POST execute/async "$(jq -nc --arg script "$writes" '{script: $script, args: []}')" | jq -er .)
echo "$post"
post=${post#http://blog.example.com}
# seen SITE: the browser shows the post and its picture
seen() {
	browser_open "http://$1.example.com$post"
	browser_text h1 | grep -qF 'A day at the sea'
	[ "$(browser POST execute/sync '{"script": "return document.querySelector(\".wp-block-image img\").naturalWidth > 0", "args": []}')" = true ]
}
until_ok 60 seen blog
browser_picture "$pictures/blog.png"

step "6. Readers, and comments of which each is noted when it is accepted"
touch "$demo/loading"
: >"$demo/accepted"
: >"$demo/read"
: >"$demo/failed"
address=$(ip blog)
loaders=()
client() { curl -s -o /dev/null -w '%{http_code}' --max-time 20 --resolve "blog.example.com:80:$address" "$@" || true; }
(
	n=0
	while [ -e "$demo/loading" ]; do
		n=$((n + 1))
		code=$(client http://blog.example.com/wp-comments-post.php -d comment_post_ID=1 -d author=Reader -d email=reader@example.com -d "comment=Comment $n")
		if [ "$code" = 302 ]; then echo $n >>"$demo/accepted"; else echo "comment $code" >>"$demo/failed"; fi
	done
) &
loaders+=($!)
for path in / "$post"; do
	(
		while [ -e "$demo/loading" ]; do
			code=$(client "http://blog.example.com$path")
			if [ "$code" = 200 ]; then echo "$path" >>"$demo/read"; else echo "page $code" >>"$demo/failed"; fi
		done
	) &
	loaders+=($!)
done
more() { local from; from=$(wc -l <"$demo/accepted"); enough() { [ "$(wc -l <"$demo/accepted")" -ge $((from + 20)) ]; }; until_ok 120 enough; }
count() { echo "$(wc -l <"$demo/read") pages read, $(wc -l <"$demo/accepted") comments accepted, $(wc -l <"$demo/failed") requests failed"; }
more
count

step "7. The primary's pod is killed"
primary() { kubectl -n ann get mysqlcluster db -o jsonpath='{.status.primary}'; }
safe() { kubectl -n ann get mysqlcluster db -o json | jq -e '.status.safeToFailOver and .status.readyMembers == 2'; }
until_ok 60 safe
old=$(primary)
show kubectl -n ann delete pod "$old" --grace-period=0 --force
moved() { [ "$(primary)" != "$old" ]; }
until_ok 60 moved
echo "the primary is $(primary)"
more
count
ready mysqlcluster/db

step "8. WordPress and PHP are upgraded: no request fails"
: >"$demo/failed"
sed -i 's|localhost/wordpress:6.1|localhost/wordpress:6.8|' "$demo/site.yaml"
show ann apply -f "$demo/site.yaml"
ready wordpress/blog
newer() { page blog / | grep -q 'content="WordPress 6.8'; }
until_ok 60 newer
more
count
[ ! -s "$demo/failed" ] || { sort "$demo/failed" | uniq -c >&2; exit 1; }

step "9. A copy of the site, without its persons"
cat >"$demo/staging.yaml" <<'EOF'
apiVersion: apps.tillerman.dev/v1alpha1
kind: WordPress
metadata: {name: staging}
spec:
  host: staging.example.com
  admin: {email: ann@example.com}
  image: localhost/wordpress:6.8
  nginx: {image: localhost/wordpress:6.8}
  externalRequests: false
  database: {cluster: db}
  uploads: {size: 1Gi, onDelete: Delete}
  clone: {from: blog, anonymize: true}
EOF
show ann apply -f "$demo/staging.yaml"
ready wordpress/staging
kubectl -n ann logs job/staging-install | tail -1
until_ok 60 page staging "$post"
browse staging
until_ok 60 seen staging
browser_picture "$pictures/staging.png"
if page staging "$post" | grep blog.example.com; then echo "the copy has an address of the site" >&2; exit 1; fi
[ "$(sql "SELECT COUNT(*) > 20, SUM(comment_author_email <> '' OR comment_author = 'Reader') FROM staging.wp_comments")" = "1	0" ]

step "10. Ann backs up the site, and deletes it with its database and its pictures"
rm "$demo/loading"
wait "${loaders[@]}"
operation() {
	ann annotate wordpress blog --overwrite "tillerman.dev/operation=$1@$SECONDS" >/dev/null
	done_with() { ann get wordpress blog -o json | jq -e --arg name "$1" '.status.operations[$name].result == "Succeeded"'; }
	until_ok 120 done_with "$1"
	ann get wordpress blog -o json | jq -c --arg name "$1" '.status.operations[$name]'
}
operation backup
kubectl -n ann exec deployment/blog -c php -- sh -c 'rm -rf /usr/src/wordpress/wp-content/uploads/*'
show ann delete wordpress/blog wordpress/staging mysqlcluster/db --timeout=120s
gone() { [ -z "$(kubectl -n ann get pods,services,statefulsets,deployments -o name)" ]; }
until_ok 120 gone

step "11. Ann makes both again, and restores the site"
show ann apply -f "$demo/site.yaml"
ready mysqlcluster/db
ready wordpress/blog
operation restore
browse blog
until_ok 60 seen blog
browser_picture "$pictures/restored.png"
sql "SELECT SUBSTRING(comment_content, 9) FROM blog.wp_comments WHERE comment_content LIKE 'Comment %'" >"$demo/kept"
lost=$(sort "$demo/accepted" | comm -23 - <(sort "$demo/kept") | wc -l)
echo "$(wc -l <"$demo/accepted") comments were accepted, and $lost are lost"
[ "$lost" = 0 ]
log_in blog
echo "pictures: $pictures/blog.png $pictures/staging.png $pictures/restored.png"

step "How to go on"
cat <<EOF
  export KUBECONFIG=$KUBECONFIG PATH=$TOOLS:\$PATH
To stop the node: examples/wordpress/demo-down.sh
EOF
