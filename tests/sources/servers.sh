# Real servers on loopback for the tests of chart sources: repositories behind nginx, registries, and what lies in them.
# Source ../cluster/env.sh and ../cluster/lib.sh first. Everything is written below $work.
# shellcheck shell=bash disable=SC2154

# in_helm HOME CMD...: runs a command with Helm's files in HOME
in_helm() {
	local home=$1
	shift
	env HELM_CONFIG_HOME="$home/config" HELM_CACHE_HOME="$home/cache" HELM_DATA_HOME="$home/data" \
		DOCKER_CONFIG="$home/docker" GNUPGHOME="$work/gnupg" "$@"
}

# chart FOLDER NAME VERSION [LINES OF Chart.yaml]: a chart with one object
chart() {
	mkdir -p "$1/$2/templates"
	printf 'apiVersion: v2\nname: %s\nversion: %s\n%s' "$2" "$3" "${4:-}" >"$1/$2/Chart.yaml"
	printf '# values of %s\nsize: 1\n' "$2" >"$1/$2/values.yaml"
	printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Chart.Name }}-{{ .Chart.Version }}\ndata:\n  size: {{ .Values.size | quote }}\n' >"$1/$2/templates/map.yaml"
}

make_keys() {
	mkdir -p -m 700 "$work/gnupg"
	export GNUPGHOME=$work/gnupg
	gpg --batch --quiet --passphrase '' --quick-gen-key 'Chart Maker <maker@example.test>' rsa2048 sign never 2>/dev/null
	gpg --batch --quiet --passphrase '' --quick-gen-key 'Somebody Else <else@example.test>' rsa2048 sign never 2>/dev/null
	gpg --batch --quiet --passphrase '' --quick-gen-key 'With Subkey <subkey@example.test>' ed25519 cert never 2>/dev/null
	gpg --batch --quiet --passphrase '' --quick-add-key "$(fingerprint subkey@)" ed25519 sign never 2>/dev/null
	gpg --batch --quiet --no-auto-check-trustdb --export-secret-keys maker@example.test >"$work/secret.gpg"
	gpg --batch --quiet --no-auto-check-trustdb --export maker@example.test >"$work/public.gpg"
	gpg --batch --quiet --no-auto-check-trustdb --export --armor maker@example.test >"$work/public.asc"
	gpg --batch --quiet --no-auto-check-trustdb --export --armor subkey@example.test >"$work/both.asc"
	gpg --batch --quiet --no-auto-check-trustdb --export --armor maker@example.test >>"$work/both.asc"
	gpg --batch --quiet --no-auto-check-trustdb --export else@example.test >"$work/other.gpg"
	unset GNUPGHOME
}

# fingerprint USER: of the primary key
fingerprint() { gpg --batch --quiet --no-auto-check-trustdb --with-colons --list-keys "$1" | awk -F: '$1 == "fpr" {print $10; exit}'; }

# make_repository FOLDER: archives and their index, made by helm
make_repository() {
	local at=$1 s=$work/sources
	mkdir -p "$at"
	for v in 1.0.0 1.1.0 1.2.0+build.5 2.0.0-rc.1; do
		rm -rf "$s" && chart "$s" web $v
		in_helm "$work/maker" "$helm" package "$s/web" -d "$at" --sign --key maker@ --keyring "$work/secret.gpg" >/dev/null
	done
	rm -rf "$s" && chart "$s" plain 0.1.0 && in_helm "$work/maker" "$helm" package "$s/plain" -d "$at" >/dev/null
	rm -rf "$s" && chart "$s" tampered 0.1.0
	in_helm "$work/maker" "$helm" package "$s/tampered" -d "$at" --sign --key maker@ --keyring "$work/secret.gpg" >/dev/null
	sed -i 's/^name: tampered/name: Tampered/' "$at/tampered-0.1.0.tgz.prov"
	rm -rf "$s" && chart "$s" swapped 0.1.0
	in_helm "$work/maker" "$helm" package "$s/swapped" -d "$at" --sign --key maker@ --keyring "$work/secret.gpg" >/dev/null
	echo '# changed' >>"$s/swapped/values.yaml" && in_helm "$work/maker" "$helm" package "$s/swapped" -d "$at" >/dev/null
	rm -rf "$s" && chart "$s" subkey 0.1.0 && in_helm "$work/maker" "$helm" package "$s/subkey" -d "$at" >/dev/null
	# Helm signs with primary keys only: this one is signed by gpg, with a subkey.
	{
		printf 'apiVersion: v2\nname: subkey\nversion: 0.1.0\n\n...\nfiles:\n  subkey-0.1.0.tgz: sha256:%s\n' \
			"$(sha256sum "$at/subkey-0.1.0.tgz" | cut -d' ' -f1)"
	} | GNUPGHOME=$work/gnupg gpg --batch --quiet --clearsign -u subkey@ >"$at/subkey-0.1.0.tgz.prov" 2>/dev/null
	in_helm "$work/maker" "$helm" repo index "$at"
}

# start_nginx: `open` needs no login, `auth` needs user:secret; `token` gives tokens for the registry; the second port is
# another server, which notes what it is told
start_nginx() {
	local at=$work/nginx
	mkdir -p "$at/tmp"
	htpasswd -bBc "$at/users" user secret 2>/dev/null
	cat >"$at/nginx.conf" <<EOF
daemon off;
pid $at/pid;
error_log $at/error.log;
events {}
http {
  access_log off;
  log_format told '\$request_uri \$status "\$http_authorization"';
  client_body_temp_path $at/tmp; proxy_temp_path $at/tmp; fastcgi_temp_path $at/tmp; uwsgi_temp_path $at/tmp; scgi_temp_path $at/tmp;
  ssl_certificate $work/pki/server.crt;
  ssl_certificate_key $work/pki/server.key;
  server {
    listen 127.0.0.1:$port ssl;
    access_log $at/first.log told;
    root $work/www;
    location /auth/ { auth_basic x; auth_basic_user_file $at/users; }
    location = /token { auth_basic x; auth_basic_user_file $at/users; default_type application/json; alias $work/token.json; }
    location /moved/ { return 302 https://127.0.0.1:$((port + 1))/open/; }
    location /elsewhere/ { auth_basic x; auth_basic_user_file $at/users; rewrite ^/elsewhere/web-(.*)\$ https://127.0.0.1:$((port + 1))/open/web-\$1 redirect; }
  }
  server {
    listen 127.0.0.1:$((port + 1)) ssl;
    access_log $at/second.log told;
    root $work/www;
  }
  server {
    listen 127.0.0.1:$((port + 2));
    root $work/www;
  }
  server {
    listen 127.0.0.1:$((port + 7)) ssl;
    ssl_certificate $work/pki/self.crt;
    ssl_certificate_key $work/pki/self.key;
    root $work/www;
  }
  server {
    listen 127.0.0.1:$((port + 6)) ssl;
    ssl_client_certificate $work/pki/ca.crt;
    ssl_verify_client on;
    root $work/www;
  }
}
EOF
	PATH=$PATH:/usr/sbin nginx -c "$at/nginx.conf" -e "$at/error.log" >/dev/null 2>&1 &
	servers+=($!)
	until_ok 20 curl -fs --cacert "$work/pki/ca.crt" "https://127.0.0.1:$port/open/index.yaml"
}

# start_registry PORT TLS AUTH: a registry; AUTH is none, htpasswd or token. All share what is stored.
start_registry() {
	local at=$work/registry-$1
	mkdir -p "$at"
	{
		printf 'version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\n' "$work/blobs"
		printf 'http:\n  addr: 127.0.0.1:%s\n  secret: x\n' "$1"
		[ "$2" = plain ] || printf '  tls: {certificate: %s, key: %s}\n' "$work/pki/server.crt" "$work/pki/server.key"
		case $3 in
		htpasswd) printf 'auth: {htpasswd: {realm: x, path: %s}}\n' "$work/nginx/users" ;;
		token) printf 'auth: {token: {realm: "https://127.0.0.1:%s/token", service: tests, issuer: tests, rootcertbundle: %s}}\n' "$port" "$work/pki/token.crt" ;;
		esac
	} >"$at/config.yml"
	OTEL_TRACES_EXPORTER=none "$TOOLS/registry" serve "$at/config.yml" >"$at/log" 2>&1 &
	servers+=($!)
	until_ok 20 curl -s --cacert "$work/pki/ca.crt" "$([ "$2" = plain ] && echo http || echo https)://127.0.0.1:$1/v2/"
}

# make_token [REPOSITORY ACTIONS]: a token as a token server would give it: a signed JWT that allows these actions, which are JSON; to pull
# charts/web by default
make_token() {
	local header claims now repository=${1:-charts/web} actions=${2:-'"pull"'}
	now=$(date +%s)
	[ -s "$work/pki/token.key" ] || openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/pki/token.key" -out "$work/pki/token.crt" -subj /CN=tests -days 1 2>/dev/null
	b64url() { base64 -w0 | tr '+/' '-_' | tr -d '='; }
	header=$(printf '{"typ":"JWT","alg":"RS256","x5c":["%s"]}' "$(openssl x509 -in "$work/pki/token.crt" -outform DER | base64 -w0)" | b64url)
	claims=$(printf '{"iss":"tests","sub":"user","aud":"tests","exp":%s,"nbf":%s,"iat":%s,"jti":"1","access":[{"type":"repository","name":"%s","actions":[%s]}]}' \
		$((now + 3600)) $((now - 60)) $((now - 60)) "$repository" "$actions" | b64url)
	printf '{"token":"%s.%s.%s"}' "$header" "$claims" "$(printf '%s.%s' "$header" "$claims" | openssl dgst -sha256 -sign "$work/pki/token.key" | b64url)" >"$work/token.json"
}

start_servers() {
	mkdir -p "$work/pki" "$work/www"
	openssl ecparam -name prime256v1 -genkey -noout -out "$work/pki/ca.key"
	openssl req -x509 -new -key "$work/pki/ca.key" -subj /CN=tests -days 2 -out "$work/pki/ca.crt" -addext 'keyUsage=critical,keyCertSign,cRLSign'
	cert "$work/pki" server /CN=127.0.0.1 IP:127.0.0.1
	cert "$work/pki" client /CN=client
	openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -out "$work/pki/stranger.crt" -subj /CN=stranger -days 2 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/pki/self.key" -out "$work/pki/self.crt" -subj /CN=self -days 2 \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	make_keys
	make_repository "$work/www/open"
	cp -r "$work/www/open" "$work/www/auth"
	mkdir -p "$work/www/wrong" "$work/www/far" "$work/www/broken" "$work/www/elsewhere" "$work/www/json"
	# An index that says another digest, one that is no YAML, and one whose archives are on another server.
	sed 's/digest: ..../digest: 0000/' "$work/www/open/index.yaml" >"$work/www/wrong/index.yaml"
	cp "$work/www/open/"*.tgz "$work/www/wrong/"
	printf 'entries: [\n' >"$work/www/broken/index.yaml"
	cp "$work/www/open/index.yaml" "$work/www/elsewhere/index.yaml"
	in_helm "$work/maker" "$helm" repo index "$work/www/open" --url "https://127.0.0.1:$((port + 1))/open"
	mv "$work/www/open/index.yaml" "$work/www/far/index.yaml"
	cp "$work/www/auth/index.yaml" "$work/www/open/index.yaml"
	make_token
	start_nginx
	start_registry $((port + 3)) plain none
	start_registry $((port + 4)) tls htpasswd
	start_registry $((port + 5)) tls token
	for archive in "$work/www/open/"*.tgz; do
		in_helm "$work/maker" "$helm" push "$archive" "oci://127.0.0.1:$((port + 3))/charts" --plain-http >/dev/null 2>&1
	done
}

stop_servers() {
	kill "${servers[@]}" 2>/dev/null
	wait "${servers[@]}" 2>/dev/null
	GNUPGHOME=$work/gnupg gpgconf --kill all 2>/dev/null
	rm -rf "$work"
}
