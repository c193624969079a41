#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# again.sh BUILD: after a ctest that failed. A live test measures real processes, and on a small machine the tests beside it take what
# it measures with. At most two of them get a second run, with nothing else on the machine, and that one decides; what they said the first
# time stays above. Whatever else failed, or more of them, has failed.
set -euo pipefail
build=$1
failed=$build/Testing/Temporary/LastTestsFailed.log
[ -s "$failed" ] || exit 8
if grep -qvE '^[0-9]+:(live|mcp\.client)\.' "$failed" || [ "$(wc -l < "$failed")" -gt 2 ]; then exit 8; fi
names=$(cut -d: -f2 "$failed" | paste -sd ' ')
echo "again: $names failed beside other tests, and run alone now"
exec ctest --test-dir "$build" --rerun-failed --output-on-failure --no-tests=error
