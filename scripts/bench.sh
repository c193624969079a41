#!/bin/sh
# SPDX-License-Identifier: MIT
# `make bench`: runs every benchmark under tests/bench, each against its peer in the same run.
set -eu
status=0
for run in tests/bench/*/run.sh tests/bench/heap/walk.sh tests/bench/heap/gcdump.sh tests/bench/heap/threads.sh \
  tests/bench/kernel/oncpu.sh tests/bench/kernel/offcpu.sh; do
  echo "== $run"
  BUILD=${BUILD:-build/release} bash "$run" || status=1
done
exit $status
