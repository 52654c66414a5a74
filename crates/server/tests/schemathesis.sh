#!/bin/sh
# schemathesis.sh URL TOKEN: holds the OpenAPI document against the running
# server. Installs schemathesis into a folder of its own when it is not there.
set -eu
fail() { echo "$1" >&2; exit 1; }
version=4.32.5
folder="${TMPDIR:-/tmp}/windlass-tests-schemathesis-$version"
program="$folder/bin/schemathesis"
if ! [ -x "$program" ]; then
  command -v python3 >/dev/null || fail "python3 is missing: install it to run this test"
  python3 -m venv "$folder" || fail "python3 -m venv failed: install python3-venv to run this test"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version" ||
    { rm -rf "$folder"; fail "pip could not install schemathesis $version: check the network"; }
fi
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
# The document itself is behind the door, too.
curl --silent --fail --header "authorization: Bearer $2" "$1/openapi.json" >openapi.json ||
  fail "could not get the document: is curl there?"
TOKEN="$2" "$program" --config-file "$here/schemathesis.toml" run openapi.json --url "$1" --seed 1 --max-examples "${EXAMPLES:-25}" --no-color
