#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# lint.sh CHECK SOURCE BUILD: one static check over the files of the project. Exit 77: the tool is not here, with the reason printed.
set -uo pipefail
check=$1 source=$2 build=$3
cd "$source" || exit 2

skip() { echo "SKIPPED: $*"; exit 77; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed (Debian: apt-get install $2)"; }

# Names of the project's files that match the given patterns: what git tracks, or what lies there when this is no git tree.
files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -- "$@" | while IFS= read -r f; do [ -f "$f" ] && echo "$f"; done
  else
    local args=() pattern
    for pattern in "$@"; do args+=(-o -path "./$pattern"); done
    find . -path './build*' -prune -o -type f \( "${args[@]:1}" \) -print | sed 's,^\./,,'
  fi
}

clang_format() {
  need clang-format clang-format
  clang-format --version | grep -q 'version 14\.' || skip "clang-format 14 wanted, another release formats differently: $(clang-format --version)"
  files 'native/*.c' 'native/*.h' 'tests/*.c' 'tests/*.h' | xargs -r clang-format --dry-run --Werror
}

# A third of the analyser's usual depth in one function: 2.5 s for a file that took 10 s.
# Each file's outcome is remembered under a hash of all that it can depend on, so that a second run looks at what changed only.
clang_tidy() {
  need clang-tidy clang-tidy
  local database="$build/compile_commands.json"
  [ -f "$database" ] || skip "no compile_commands.json in the build folder"
  local cache="$build/clang-tidy" headers
  mkdir -p "$cache"
  headers=$( (clang-tidy --version; cat .clang-tidy tests/lint/lint.sh; files 'native/*.h' 'tests/*.h' | xargs cat) | sha256sum)
  export headers cache build
  files 'native/*.c' | while IFS= read -r f; do grep -qF "\"$source/$f\"" "$database" && echo "$f"; done |
    xargs -r -P 2 -I{} bash -c '
      key=$( (echo "$headers"; cat "$1") | sha256sum | cut -d" " -f1)
      [ -e "$cache/$key" ] && exit 0
      # The commands may be of gcc, with options that are news to clang.
      out=$(clang-tidy -p "$build" --quiet --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unknown-warning-option \
              --extra-arg=-include --extra-arg="$PWD/tests/lint/analyzer.h" \
              --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=75000 "$1" 2>/dev/null) && touch "$cache/$key" && exit 0
      echo "$out"; exit 1' _ {}
}

lua_check() {
  need luacheck lua-check
  files 'lua/*.lua' 'tests/*.lua' | xargs -r luacheck --quiet --no-color
}

file_size() {
  local bad=0 f n
  while IFS= read -r f; do
    n=$(wc -l <"$f")
    [ "$n" -le 800 ] || { echo "$f: $n lines; 800 is the most"; bad=1; }
  done < <(files 'native/*.c' 'native/*.h' 'lua/*.lua')
  return $bad
}

# Package registries this machine is configured to use: their hosts are the machine's business, not the project's.
private_hosts() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/* ~/.npmrc /etc/npmrc ~/.nuget/NuGet/NuGet.Config ~/.config/NuGet/NuGet.Config \
      /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf 2>/dev/null |
    grep -oE 'https?://[^/ "@]+' | sed -E 's,https?://,,' | sort -u |
    grep -vE '(^|\.)(debian\.org|npmjs\.(org|com)|nuget\.org|pypi\.org|pythonhosted\.org|microsoft\.com)$'
}

words() {
  local bad=0 host
  local marks='\b(TO''DO|FIX''ME|X''XX)\b' paths='(^|[^[:alnum:]_.])/(wo''rk|ro''ot)/|/tmp/(bui''ld-|te''am/)'
  mapfile -t all < <(files '*' | grep -vE '(^|/)corpus/|\.(nettrace|zip|png|gz)$')
  if grep -nIE "$marks" -- "${all[@]}"; then echo "^ unfinished work is tracked elsewhere"; bad=1; fi
  # The tmp folder below /proc/PID/root is a place that the product looks into.
  if grep -nIE "$paths" -- "${all[@]}" | grep -vE '/ro''ot/(tmp|dev)/'; then echo "^ a path of one machine"; bad=1; fi
  for host in $(private_hosts); do
    if grep -nIF "$host" -- "${all[@]}"; then echo "^ a package host of this machine"; bad=1; fi
  done
  while IFS= read -r f; do
    head -n 2 "$f" | grep -q 'SPDX-License-Identifier: MIT' || { echo "$f: no SPDX line"; bad=1; }
  done < <(files 'native/*.c' 'native/*.h' 'lua/*.lua' 'tests/*.c' 'tests/*.h' 'tests/*.lua' 'tests/*.sh' 'scripts/*.sh')
  return $bad
}

case $check in
  clang-format) clang_format ;;
  clang-tidy) clang_tidy ;;
  luacheck) lua_check ;;
  file-size) file_size ;;
  words) words ;;
  *) echo "no such check: $check" >&2; exit 2 ;;
esac
rc=$?
[ $rc -eq 0 ] || exit 1
