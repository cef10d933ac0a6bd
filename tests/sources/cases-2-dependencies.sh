# dependency build, update and list.
# shellcheck shell=bash disable=SC2154

# app LINES: a chart `app` with these dependencies, as input of the next cases
app() {
	rm -rf "$work/input"
	chart "$work/input" app 0.1.0 "dependencies:
$1
"
}

# locked: Helm's lock and charts for the present input become input too
locked() {
	(cd "$work/input" && in_helm "$work/home" "$helm" dependency update app >/dev/null) || echo "helm could not lock $PWD" >&2
}

dependency_of() { printf -- '- {name: %s, version: "%s", repository: "%s"%s}\n' "$@"; }

app "$(dependency_of web '>=1.0.0 <1.2' "$first/open" '')"
works "list what is missing" dependency list app
works "update" dependency update app
works "up" dep up app
works "update from what is kept" dependency update app --skip-refresh=true
works "template that fetches" template x app --dependency-update
fails "template without dependencies" template x app
locked
works "build" dependency build app
works "list what is there" dependency list app
works "list narrow" dependency list app --max-col-width 12
works "update changes nothing" dependency update app
sed -i 's/>=1.0.0/>=1.0.1/' "$work/input/app/Chart.yaml"
fails "lock out of sync" dependency build app
works "update replaces" dependency update app
sed -i 's/^digest: .*/digest: sha256:0000/; s/>=1.0.1/>=1.0.0/' "$work/input/app/Chart.lock" "$work/input/app/Chart.yaml"
fails "wrong digest of the lock" dependency build app

app "$(dependency_of web '^1' @auth '')
$(dependency_of plain '*' alias:open ', alias: other, condition: other.enabled, tags: [a, b]')"
works "aliases" dependency update app
locked
works "build with aliases" dependency build app
app "$(dependency_of web '^1' @nothing '')"
fails "unknown alias" dependency update app
app "$(dependency_of web '^1' alias:nothing '')"
fails "unknown alias in long" dependency update app
app "$(dependency_of web '^1' stable '')"
fails "no link" dependency update app
app "$(dependency_of web '^9' "$first/open" '')"
fails "no version" dependency update app
app "$(dependency_of nothing '^9' "$first/open" '')"
fails "no such dependency" dependency update app
app "$(dependency_of web '?' "$first/open" '')"
fails "no constraint" dependency update app
app "$(dependency_of web '1.0.0' "$first/wrong" '')"
own "wrong digest of a dependency" 1 "but the index of its repository says" dependency update app

# Repositories that were not added.
app "$(dependency_of web '1.0.0' "$http/open" '')"
works "unmanaged repository" dependency update app
locked
fails "build from an unmanaged repository" dependency build app
app "$(dependency_of web '1.0.0' https://127.0.0.1:1/charts '')"
fails "unreachable repository" dependency update app
app "$(dependency_of web '1.0.0' "$http/nothing" '')"
fails "unmanaged repository without index" dependency update app

# Directories.
app "$(dependency_of lib '~1.0' file://../lib '')"
fails "no directory" dependency update app
chart "$work/input" lib 1.0.3
printf 'x\n' >"$work/input/lib/README.md"
printf '*.tmp\n' >"$work/input/lib/.helmignore"
printf 'x\n' >"$work/input/lib/a.tmp"
printf '{"type": "object"}' >"$work/input/lib/values.schema.json"
chart "$work/input/lib/charts" inner 0.1.0
works "directory" dependency update app
works "directory from elsewhere" dependency update ./app/../app/
locked
works "build of a directory" dependency build app
works "list of a directory" dependency list app
works "template with a directory" template x app
chart "$work/input" lib 2.0.0
fails "directory with another version" dependency update app
app "$(dependency_of lib '~1.0' '' '')"
fails "not unpacked" dependency update app
chart "$work/input/app/charts" lib 1.0.0
works "unpacked" dependency update app
works "list of unpacked" dependency list app
chart "$work/input/app/charts" lib 2.0.0
fails "unpacked with another version" dependency update app
chart "$work/input/app/charts" stray 2.0.0
mkdir -p "$work/input/app/charts/empty"
cp "$work/www/open/plain-0.1.0.tgz" "$work/input/app/charts/"
works "list of strangers" dependency list app

# Charts of apiVersion v1.
rm -rf "$work/input"
chart "$work/input" app 0.1.0
sed -i s/v2/v1/ "$work/input/app/Chart.yaml"
printf 'dependencies:\n%s\n' "$(dependency_of web '^1' "$first/open" '')" >"$work/input/app/requirements.yaml"
works "old chart" dependency update app
locked
works "build of an old chart" dependency build app
sed -i 's/^digest: .*/digest: sha256:0000/' "$work/input/app/requirements.lock"
fails "old lock out of sync" dependency build app

rm -rf "$work/input"
chart "$work/input" app 0.1.0
works "no dependencies" dependency update app
works "list of no dependencies" dependency list app
fails "update of nothing" dependency update nothing
fails "list of nothing" dependency list nothing
cp "$work/www/open/plain-0.1.0.tgz" "$work/input/"
fails "update of an archive" dependency update plain-0.1.0.tgz
works "list of an archive" dependency list plain-0.1.0.tgz
rm -rf "$work/input"
