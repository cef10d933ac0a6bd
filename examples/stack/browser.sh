# A headless Chromium, driven by WebDriver (https://www.w3.org/TR/webdriver2/) with curl: source it after tests/cluster/lib.sh.
# shellcheck shell=bash
need chromium chromium chromedriver chromium-driver curl curl jq jq

# browser_start FOLDER [ARGUMENT...]: starts it, with its files in this folder
browser_start() {
	local folder=$1 options
	shift
	browser_port=$((20000 + RANDOM % 10000))
	mkdir -p "$folder"
	chromedriver --port=$browser_port >"$folder/chromedriver.log" 2>&1 &
	browser_driver=$!
	until_ok 30 curl -sf "http://127.0.0.1:$browser_port/status"
	options=$(jq -nc --arg folder "$folder/profile" '{args: ($ARGS.positional + ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--force-device-scale-factor=1", "--window-size=1000,760", "--user-data-dir=" + $folder])}' --args -- "$@")
	browser_session=$(curl -sf "http://127.0.0.1:$browser_port/session" -d "$(jq -nc --argjson options "$options" \
		'{capabilities: {alwaysMatch: {browserName: "chrome", timeouts: {pageLoad: 40000}, "goog:chromeOptions": $options}}}')" | jq -er .value.sessionId) ||
		{ tail -5 "$folder/chromedriver.log" >&2; return 1; }
}
# browser METHOD PATH [JSON]: a command of the session; prints the value of its answer
browser() {
	local answer
	answer=$(curl -s --max-time 60 -X "$1" "http://127.0.0.1:$browser_port/session/$browser_session/$2" ${3:+-d "$3"})
	jq -e 'if (.value | type) == "object" and .value.error then error(.value.message) else .value end' <<<"$answer" 2>/dev/null ||
		{ jq -e '.value == null' <<<"$answer" >/dev/null && return 0; echo "browser: $1 $2: $answer" >&2; return 1; }
}
browser_open() { browser POST url "$(jq -nc --arg url "$1" '{url: $url}')" >/dev/null; }
# browser_element CSS: the id of an element
browser_element() { browser POST element "$(jq -nc --arg css "$1" '{using: "css selector", value: $css}')" | jq -er '.[]'; }
browser_type() { browser POST "element/$(browser_element "$1")/value" "$(jq -nc --arg text "$2" '{text: $text}')" >/dev/null; }
browser_click() { browser POST "element/$(browser_element "$1")/click" '{}' >/dev/null; }
browser_text() { browser GET "element/$(browser_element "$1")/text" | jq -r .; }
# browser_picture FILE [CSS]: a picture of the window, or of an element
browser_picture() { browser GET "${2:+element/$(browser_element "$2")/}screenshot" | jq -r . | base64 -d >"$1"; }
browser_stop() {
	[ -z "${browser_session:-}" ] || curl -s -X DELETE "http://127.0.0.1:$browser_port/session/$browser_session" >/dev/null || true
	[ -z "${browser_driver:-}" ] || kill "$browser_driver" 2>/dev/null || true
	browser_session='' browser_driver=''
}
