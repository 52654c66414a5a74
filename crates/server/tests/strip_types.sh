#!/bin/sh
# strip_types.sh IN.ts OUT.mjs: takes the types out of a TypeScript file, with
# Node's own code for it where Node has it, and with the package it is made of elsewhere.
set -eu
fail() { echo "$1" >&2; exit 1; }
command -v node >/dev/null || fail "node is missing: install Node 20 or newer to run this test"
if node -e 'process.exit(require("node:module").stripTypeScriptTypes ? 0 : 1)'; then
  exec node -e 'const fs = require("fs");
    fs.writeFileSync(process.argv[2], require("node:module").stripTypeScriptTypes(fs.readFileSync(process.argv[1], "utf8")))' "$1" "$2"
fi
folder="${TMPDIR:-/tmp}/windlass-tests-amaro-1.2.1"
if ! [ -e "$folder/node_modules/amaro/package.json" ]; then
  command -v npm >/dev/null || fail "npm is missing: install it, or Node 22.13 or newer, to run this test"
  # Built aside and moved: two tests may do this at once.
  fresh="$(mktemp -d)"
  npm install --silent --no-audit --no-fund --prefix "$fresh" amaro@1.2.1 >&2 ||
    fail "npm could not install amaro@1.2.1: check the network, or use Node 22.13 or newer"
  mv "$fresh" "$folder" 2>/dev/null || rm -rf "$fresh"
fi
NODE_PATH="$folder/node_modules" exec node -e 'const fs = require("fs");
  fs.writeFileSync(process.argv[2], require("amaro").transformSync(fs.readFileSync(process.argv[1], "utf8"), { mode: "strip-only" }).code)' "$1" "$2"
