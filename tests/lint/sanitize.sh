#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sanitize.sh KIND SOURCE BUILD FUZZ_SECONDS: builds the native tests (or the fuzz targets) with a sanitizer in BUILD/KIND and runs them.
set -euo pipefail
kind=$1 source=$2 build=$3/$1 seconds=$4
cd "$source"

skip() { echo "SKIPPED: $*"; exit 77; }
can_link() { echo 'int main(void){return 0;}' | "$1" -x c - -o /dev/null "$2" 2>/dev/null || skip "$1 cannot link with $2 here${3:+ ($3)}"; }

case $kind in
  asan) can_link cc -fsanitize=address,undefined; target=native_tests; args=(-L native) ;;
  tsan) can_link cc -fsanitize=thread; target=thread_tests; args=(-L threads) ;;
  fuzz)
    command -v clang >/dev/null || skip "clang is not installed (Debian: apt-get install clang libclang-rt-14-dev)"
    echo 'int LLVMFuzzerTestOneInput(void){return 0;}' | clang -x c - -o /dev/null -fsanitize=fuzzer,address 2>/dev/null ||
      skip "clang cannot link with libFuzzer here (Debian: apt-get install libclang-rt-14-dev)"
    target=fuzz_targets; args=(-L fuzz) ;;
  *) echo "no such sanitizer: $kind" >&2; exit 2 ;;
esac

generator=()
[ -e "$build/CMakeCache.txt" ] || generator=(-G Ninja)
cmake --preset "$kind" -B "$build" "${generator[@]}" -DLUNETTE_FUZZ_SECONDS="$seconds" >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
cmake --build "$build" -j 2 --target "$target" >"$build.log" 2>&1 || { tail -n 100 "$build.log"; exit 1; }

# abort_on_error off: a report is an exit status, not a core file. A skipped test (77) stays one inside.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
exec ctest --test-dir "$build" "${args[@]}" -j 2 --output-on-failure --no-tests=error
