#!/usr/bin/env bash
# Shows a PHP guest book on a cluster of MariaDB in a browser, with mail about its changes: demo.sh TILLERMAN_BINARY AGENT_BINARY [PICTURES]
# PICTURES is a folder for the pictures that the browser takes. The node stays: demo-down.sh removes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../local-node.sh" demo-stack "$@"
need openssl openssl
. "$here/browser.sh"
trap browser_stop EXIT

step "1. A local cluster with one node"
"$top/tests/cluster/node-up.sh"
export KUBECONFIG=$STATE/admin.kubeconfig PATH=$TOOLS:$PATH

step "2. One operator for both kinds, which carries notices out"
"$top/tests/node/php-operator.sh" "$bin" "$agent" "$demo" notices

step "3. A server of mail in the cluster"
(
	cd "$demo"
	ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
	openssl req -x509 -keyout ca.key -out ca.crt -days 30 -subj /CN=mail "${ec[@]}" 2>/dev/null
	openssl req -keyout tls.key -out tls.csr -subj /CN=mail.default.svc "${ec[@]}" 2>/dev/null
	openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile <(echo subjectAltName=DNS:mail.default.svc) -out tls.crt 2>/dev/null
	openssl rand -hex 16 | tr -d '\n' >password
	echo "tillerman:$(cat password)" >auth
)
kubectl delete notice,phpapp,mysql --all --timeout=60s >/dev/null 2>&1 || true
kubectl delete deployment,service mail --ignore-not-found >/dev/null
kubectl delete secret mail-server mail-login mail-authority --ignore-not-found >/dev/null
kubectl create secret generic mail-server --from-file="$demo/tls.crt" --from-file="$demo/tls.key" --from-file="$demo/auth"
kubectl create secret generic mail-authority --from-file="$demo/ca.crt"
kubectl create secret generic mail-login --from-literal=username=tillerman --from-file="$demo/password"
kubectl annotate secret mail-login tillerman.dev/notice-hosts=mail.default.svc
kubectl apply -f - <<'EOF'
apiVersion: apps/v1
kind: Deployment
metadata: {name: mail}
spec:
  selector: {matchLabels: {app: mail}}
  template:
    metadata: {labels: {app: mail}}
    spec:
      securityContext: {fsGroup: 65532}
      containers:
        - name: mailpit
          image: localhost/mailpit:test
          args: [--smtp-auth-file=/server/auth, --smtp-tls-cert=/server/tls.crt, --smtp-tls-key=/server/tls.key, --smtp-require-starttls, --smtp-disable-rdns, --disable-version-check]
          readinessProbe: {tcpSocket: {port: 1025}, periodSeconds: 1}
          volumeMounts: [{name: server, mountPath: /server}, {name: messages, mountPath: /tmp}]
      volumes:
        - name: server
          secret: {secretName: mail-server}
        - name: messages
          emptyDir: {}
---
apiVersion: v1
kind: Service
metadata: {name: mail}
spec:
  selector: {app: mail}
  ports: [{name: smtp, port: 1025}, {name: http, port: 8025}]
EOF
kubectl rollout status deployment/mail --timeout=60s
mail=http://$(kubectl get service mail -o jsonpath='{.spec.clusterIP}'):8025

step "4. A database, the guest book and mail about both: three custom resources"
jq -Rs . "$here/guestbook.php" >"$demo/page"
awk -v file="$demo/page" '/GUESTBOOK/ { getline page < file; i = index($0, "GUESTBOOK"); print substr($0, 1, i - 1) page; next } { print }' "$here/guestbook.yaml" >"$demo/guestbook.yaml"
kubectl apply -f "$demo/guestbook.yaml"
kubectl wait mysql/db phpapp/guestbook --for=condition=Ready --timeout=300s
kubectl get mysql,phpapp,notices
# arrived TEXT: succeeds if a mail with this text has arrived
arrived() { curl -sf "$mail/api/v1/messages?limit=200" | jq -r '.messages[].ID' | while read -r id; do curl -sf "$mail/api/v1/message/$id" | jq -r '.Subject, .Text'; done >"$demo/mails"; grep -qE "$1" "$demo/mails"; }
until_ok 90 arrived 'PodStarted.*|db-0.*started'

step "5. Somebody signs, in a browser"
browser_start "$demo"
page=http://$(kubectl get service guestbook -o jsonpath='{.spec.clusterIP}')
sign() {
	browser_open "$page"
	browser_type '#name' "$1"
	browser_type '#text' "$2"
	browser_click '#send'
	has_entry "$2"
}
has_entry() { browser_text ul | grep -qF "$1"; }
sign Ada "Written while $(kubectl get mysql db -o jsonpath='{.status.primary}') is the primary"
browser_text ul

step "6. The primary's pod is killed"
old=$(kubectl get mysql db -o jsonpath='{.status.primary}')
show kubectl delete pod "$old" --grace-period=0 --force
sign Grace "Written after $old was killed"
# The Service selects the new pod within a second or two.
served_by_another() { browser_open "$page" && [ "$(browser_text '#primary')" != "$old" ]; }
until_ok 60 served_by_another
has_entry "Written while $old"
has_entry "Written after $old"
browser_text ul
echo "the primary is $(browser_text '#primary')"
browser_picture "$pictures/guestbook.png"

step "7. Mail says so"
until_ok 90 arrived "$old"
until_ok 90 arrived PrimaryChanged
kubectl wait mysql/db --for=condition=Ready --timeout=120s
cat "$demo/mails"
# The module of mailpit has no pages: its message is shown as text.
id=$(curl -sf "$mail/api/v1/messages?limit=200" | jq -er 'first(.messages[] | select(.Subject | test("PrimaryChanged"))).ID')
browser_open "$mail/view/$id.txt"
browser_text body | grep PrimaryChanged
browser_picture "$pictures/mail.png" body
echo "pictures: $pictures/guestbook.png $pictures/mail.png"

step "How to go on"
cat <<EOF
  export KUBECONFIG=$KUBECONFIG PATH=$TOOLS:\$PATH
  the guest book: $page    the mail: $mail
To stop the node: examples/stack/demo-down.sh
EOF
