#!/bin/sh
# What kube-webhook-certgen of ingress-nginx does, with its flags, by openssl and kubectl:
#   create --host=NAMES --namespace=NAMESPACE --secret-name=SECRET      a Secret with ca, cert and key, unless it is there
#   patch --webhook-name=NAME --namespace=NAMESPACE --secret-name=SECRET   puts the authority into the MutatingWebhookConfiguration
# Nothing is written outside of a folder in memory: the root file system may be read-only.
set -eu
verb=$1
shift
for flag in "$@"; do case $flag in
	--host=*) hosts=${flag#*=} ;;
	--namespace=*) namespace=${flag#*=} ;;
	--secret-name=*) secret=${flag#*=} ;;
	--webhook-name=*) webhook=${flag#*=} ;;
	--patch-validating=false) ;;
	*) echo "certgen: $flag is not known" >&2; exit 2 ;;
esac; done
kubectl="kubectl --cache-dir=/dev/shm -n $namespace"
case $verb in
create)
	! $kubectl get secret "$secret" >/dev/null 2>&1 || exit 0
	cd "$(mktemp -d -p /dev/shm)"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca -days 3650 -subj /CN=certgen 2>/dev/null
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out csr -subj "/CN=${hosts%%,*}" 2>/dev/null
	printf 'subjectAltName=%s\n' "DNS:$(echo "$hosts" | sed 's/,/,DNS:/g')" >ext
	openssl x509 -req -in csr -CA ca -CAkey ca.key -CAcreateserial -CAserial ca.srl -days 3650 -extfile ext -out cert 2>/dev/null
	$kubectl create secret generic "$secret" --from-file=ca --from-file=cert --from-file=key
	;;
patch)
	bundle=$($kubectl get secret "$secret" -o 'jsonpath={.data.ca}')
	$kubectl patch mutatingwebhookconfiguration "$webhook" --type=json \
		-p "[{\"op\": \"add\", \"path\": \"/webhooks/0/clientConfig/caBundle\", \"value\": \"$bundle\"}]"
	;;
*) echo "certgen: $verb is neither create nor patch" >&2; exit 2 ;;
esac
