#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the memory target for one runtime or all: build.sh OUT_DIR [net10.0 | net9.0 | net8.0 | single-…]...
# single-net10.0 is one file that uses the installed runtime; single-own-net10.0, -net9.0 and -net8.0 have theirs inside.
# OUT_DIR/NAME/lunette-memory is the program; a stamp of the sources says whether it is up to date. Exit 77, with the reason on standard output,
# when the SDK or a runtime pack is not there: a test of that runtime is then skipped. Nothing is written beside the sources.
set -u

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: build.sh OUT_DIR [NAME]..." >&2; exit 2; }
out=$1
shift
[ $# -gt 0 ] || set -- net10.0 net9.0 net8.0 single-net10.0 single-own-net10.0 single-own-net9.0 single-own-net8.0

command -v dotnet >/dev/null 2>&1 || { echo "no dotnet SDK on PATH"; exit 77; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)

# One build at a time: test files that run side by side share the output.
if [ "${LUNETTE_MEMORY_LOCKED:-}" != 1 ]; then
    LUNETTE_MEMORY_LOCKED=1 exec flock "$out/.lock" sh "$here/build.sh" "$out" "$@"
fi

export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
stamp=$({ cat "$here"/*.cs "$here"/*.csproj "$here/build.sh"; dotnet --version; } | sha256sum | cut -d' ' -f1)
skipped=0

for name in "$@"; do
    single=false
    case $name in
    net10.0) own=false ;;
    net9.0 | net8.0) own=true ;;
    single-net10.0) own=false single=true ;;
    single-own-net10.0 | single-own-net9.0 | single-own-net8.0) own=true single=true ;;
    *) echo "unknown target '$name'" >&2; exit 2 ;;
    esac
    [ "$(cat "$out/$name/.stamp" 2>/dev/null)" = "$stamp" ] && [ -x "$out/$name/lunette-memory" ] && continue
    rm -rf "${out:?}/$name"
    if ! dotnet publish "$here/memory.csproj" -c Release -v quiet "-p:LunetteFramework=${name##*-}" "-p:PublishSingleFile=$single" --artifacts-path "$out/.obj-$name" \
        -o "$out/$name" --self-contained $own >"$out/$name.log" 2>&1; then
        # a compiler error is a defect; all else is something that this machine lacks
        if grep -q 'error CS' "$out/$name.log"; then
            cat "$out/$name.log" >&2
            exit 1
        fi
        echo "cannot build the $name memory target: $(grep -m1 -o 'error [^[]*' "$out/$name.log" || tail -n1 "$out/$name.log")"
        rm -rf "${out:?}/$name"
        skipped=1
        continue
    fi
    rm -rf "$out/.obj-$name"
    echo "$stamp" >"$out/$name/.stamp"
done
[ $skipped = 0 ] || exit 77
