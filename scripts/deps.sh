#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes sure that the Debian packages are there which building (build) or building and testing (test) needs: as root it installs
# what is missing, else it names it exactly.
set -eu
build="gcc libc6-dev cmake ninja-build pkg-config liblua5.4-dev libmicrohttpd-dev nettle-dev zlib1g-dev libcurl4-openssl-dev libelf-dev libdw-dev libiberty-dev curl"
tests="libcmocka-dev lua-busted lua-check clang clang-format clang-tidy libclang-rt-14-dev jq zip unzip"
case "${1:-build}" in
build) want=$build ;;
test) want="$build $tests" ;;
*) echo "usage: deps.sh build|test" >&2; exit 2 ;;
esac
command -v dpkg-query >/dev/null 2>&1 || { echo "deps: not a Debian system; needed there under other names: $want" >&2; exit 0; }
missing=""
for p in $want; do
  case "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" in installed) ;; *) missing="$missing $p" ;; esac
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These Debian packages are missing. Install them, then run make again:" >&2
  echo "  sudo apt-get install$missing" >&2
  exit 1
fi
echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 && exit 0
apt-get update >/dev/null
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends $missing >/dev/null
