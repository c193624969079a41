#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the kernel target for one runtime or all: build.sh OUT_DIR [net10.0 | net9.0 | net8.0 | aot]...
# OUT_DIR/NAME/lunette-kernel is the program, libknown.so its native library; a stamp of the sources says whether it is up to date. Exit 77,
# with the reason on standard output, when the SDK or a runtime pack is not there: a test of that runtime is then skipped. Nothing is written
# beside the sources.
set -u

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: build.sh OUT_DIR [net10.0|net9.0|net8.0|aot]..." >&2; exit 2; }
out=$1
shift
[ $# -gt 0 ] || set -- net10.0 net9.0 net8.0 aot

command -v dotnet >/dev/null 2>&1 || { echo "no dotnet SDK on PATH"; exit 77; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)

# One build at a time: test files that run side by side share the output.
if [ "${LUNETTE_KERNEL_LOCKED:-}" != 1 ]; then
    LUNETTE_KERNEL_LOCKED=1 exec flock "$out/.lock" sh "$here/build.sh" "$out" "$@"
fi

export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
stamp=$({ cat "$here"/*.c "$here"/*.cs "$here"/*.csproj "$here/build.sh"; dotnet --version; } | sha256sum | cut -d' ' -f1)
skipped=0

for name in "$@"; do
    case $name in
    net10.0) set -- "-p:LunetteFramework=net10.0" --self-contained false ;;
    net9.0 | net8.0) set -- "-p:LunetteFramework=$name" --self-contained true ;;
    aot) set -- "-p:LunetteFramework=net10.0" -p:LunetteAot=true ;;
    *) echo "unknown target '$name'" >&2; exit 2 ;;
    esac
    [ "$(cat "$out/$name/.stamp" 2>/dev/null)" = "$stamp" ] && [ -x "$out/$name/lunette-kernel" ] && continue
    rm -rf "${out:?}/$name"
    if ! dotnet publish "$here/kernel.csproj" -c Release -v quiet "$@" --artifacts-path "$out/.obj-$name" -o "$out/$name" \
        >"$out/$name.log" 2>&1; then
        # a compiler error is a defect; all else is something that this machine lacks
        if grep -q 'error CS' "$out/$name.log"; then
            cat "$out/$name.log" >&2
            exit 1
        fi
        echo "cannot build the $name kernel target: $(grep -m1 -o 'error [^[]*' "$out/$name.log" || tail -n1 "$out/$name.log")"
        rm -rf "${out:?}/$name"
        skipped=1
        continue
    fi
    # without frame pointers, as libraries of distributions are
    ${CC:-cc} -O1 -g -fPIC -shared -fvisibility=hidden -pthread -o "$out/$name/libknown.so" "$here/known.c" || exit 1
    rm -rf "$out/.obj-$name"
    echo "$stamp" >"$out/$name/.stamp"
done
[ $skipped = 0 ] || exit 77
