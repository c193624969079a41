#!/bin/sh
# SPDX-License-Identifier: MIT
# make.sh OUT: compiles Shop.cs twice into the folder OUT: Shop.dll with Shop.pdb beside it, and Embedded.dll with its PDB inside.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
sdk=$(dirname "$(dotnet --list-sdks | tail -1 | sed -E 's,^([^ ]+) \[(.*)\]$,\2/\1/x,')")
refs=$(ls -d "$(dirname "$(dirname "$sdk")")"/packs/Microsoft.NETCore.App.Ref/*/ref/net* | tail -1)
echo '{"documents": {"/src/*": "https://git.example/shop/raw/4f1d/*", "/src/gen/*": "https://git.example/gen/raw/9a/*"}}' > "$out/link.json"
compile() {
  dotnet "$sdk/Roslyn/bincore/csc.dll" -noconfig -nologo -unsafe -deterministic -optimize- -target:library -langversion:12 -nullable:disable -nowarn:CS0626 \
    -pathmap:"$here=/src,$out=/build" -sourcelink:"$out/link.json" -reference:"$refs/System.Runtime.dll" -reference:"$refs/System.Collections.dll" "$@" "$here/Shop.cs"
}
compile -debug:portable -pdb:"$out/Shop.pdb" -out:"$out/Shop.dll"
compile -debug:embedded -out:"$out/Embedded.dll"
rm "$out/link.json"
