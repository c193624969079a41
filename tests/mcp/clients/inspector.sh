#!/bin/sh
# SPDX-License-Identifier: MIT
# The MCP Inspector's command line, both eras. usage: inspector.sh http URL | stdio COMMAND ARGUMENT...
# Environment: TOOL, TOOL_ARGS (JSON), EXPECT (an extended regular expression), TOKEN.
set -u
TOOL=${TOOL:-greet}
[ -n "${TOOL_ARGS:-}" ] || TOOL_ARGS='{"name":"Ada"}'
EXPECT=${EXPECT:-Hello, Ada!}
kind=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
MCP_CATALOG_PATH=$folder/catalog.json
export MCP_CATALOG_PATH

# inspect ERA ARGUMENTS... -- the answer as JSON
inspect() {
  era=$1
  shift
  if [ "$kind" = http ]; then
    mcp-inspector --cli "$TARGET" --transport http --protocol-era "$era" --header "Authorization: Bearer ${TOKEN:-}" \
      --stored-auth-only --format json -q "$@"
  else
    # shellcheck disable=SC2086 # TARGET is a command line
    mcp-inspector --cli --protocol-era "$era" --format json -q "$@" -- $TARGET
  fi
}

TARGET=$*
for era in modern legacy; do
  listed=$(inspect "$era" --method tools/list) || { echo "inspector, $kind, $era: tools/list: exit code $?: $listed" >&2; exit 1; }
  echo "$listed" | grep -q "\"$TOOL\"" || { echo "inspector, $kind, $era: $TOOL is not listed" >&2; exit 1; }
  called=$(inspect "$era" --method tools/call --tool-name "$TOOL" --tool-args-json "$TOOL_ARGS") ||
    { echo "inspector, $kind, $era: tools/call: exit code $?: $called" >&2; exit 1; }
  echo "$called" | grep -Eq "$EXPECT" || { echo "inspector, $kind, $era: unexpected answer: $called" >&2; exit 1; }
  echo "MCP Inspector, $kind, $era: $TOOL is listed and answered"
done
