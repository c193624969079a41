#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the test target for one runtime or all: build.sh OUT_DIR [net10.0 | net9.0 | net8.0 | aot]...
# OUT_DIR/NAME/lunette-target is the program; a stamp of the sources says whether it is up to date. Exit 77, with the reason on standard
# output, when the SDK or a runtime pack is not there: a test of that runtime is then skipped. Nothing is written beside the sources.
set -u

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: build.sh OUT_DIR [net10.0|net9.0|net8.0|aot]..." >&2; exit 2; }
out=$1
shift
[ $# -gt 0 ] || set -- net10.0 net9.0 net8.0 aot

command -v dotnet >/dev/null 2>&1 || { echo "no dotnet SDK on PATH"; exit 77; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)

export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
stamp=$({ cat "$here"/*.cs "$here"/*.csproj "$here/build.sh"; dotnet --version; } | sha256sum | cut -d' ' -f1)
skipped=0

build() { # NAME FRAMEWORK ARGUMENT...
    name=$1 framework=$2
    shift 2
    # one build of a target at a time: tests that run side by side share the output
    exec 9>"$out/.lock-$name"
    flock 9
    [ "$(cat "$out/$name/.stamp" 2>/dev/null)" = "$stamp" ] && [ -x "$out/$name/lunette-target" ] && return 0
    rm -rf "${out:?}/$name"
    if ! dotnet publish "$here/targets.csproj" -c Release -v quiet "-p:LunetteFramework=$framework" \
        --artifacts-path "$out/.obj-$name" -o "$out/$name" "$@" >"$out/$name.log" 2>&1; then
        # a compiler error is a defect; all else is something that this machine lacks
        if grep -q 'error CS' "$out/$name.log"; then
            cat "$out/$name.log" >&2
            exit 1
        fi
        echo "cannot build the $name target: $(grep -m1 -o 'error [^[]*' "$out/$name.log" || tail -n1 "$out/$name.log")"
        rm -rf "${out:?}/$name"
        skipped=1
        return 0
    fi
    rm -rf "$out/.obj-$name"
    echo "$stamp" >"$out/$name/.stamp"
}

for name in "$@"; do
    case $name in
    net10.0) build net10.0 net10.0 --self-contained false ;;
    net9.0 | net8.0) build "$name" "$name" --self-contained true ;;
    aot) build aot net10.0 -p:LunetteAot=true ;;
    *) echo "unknown target '$name'" >&2; exit 2 ;;
    esac
done
[ $skipped = 0 ] || exit 77
