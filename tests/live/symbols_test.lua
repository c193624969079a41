-- SPDX-License-Identifier: MIT
-- Methods and lines as System.Reflection.Metadata and Mono.Cecil read them (symbols_peer/), method by method, on modules of the SDK and of
-- packages. tests/bench/symbols compares many more.
local h = require("harness")

local SDK <const> = {
  "System.Text.Json.dll", "System.Linq.dll", "System.Private.Uri.dll", "System.Collections.Concurrent.dll", "System.Net.Http.dll",
  "Microsoft.VisualBasic.Core.dll", "libclrjit.so",
}

local function exec(argv, timeout_ms) return h.loop.exec { argv = argv, timeout_ms = timeout_ms, max_output = 200000 } end

--- The folder of the built peer; nil, why.
local function peer()
  local folder = h.build .. "/peers/symbols"
  local built = exec({ "dotnet", "publish", h.source .. "/tests/live/symbols_peer/SymbolsPeer.csproj", "-c", "Release", "-v", "quiet",
    "--artifacts-path", folder, "-o", folder .. "/out" }, 300000)
  if built and built.code == 0 then return folder .. "/out" end
  h.ok(not (built and built.stdout:find("error CS", 1, true)), "the peer compiles: " .. (built and built.stdout or ""))
  return nil, "the peer cannot be built: " .. (built and built.stdout:sub(1, 300) or "no dotnet")
end

--- What the peer counts, and what it says.
local function compare(folder, lunette, files)
  local done = assert(exec({ folder .. "/SymbolsPeer", lunette, table.unpack(files) }, 180000))
  return h.json.decode(done.stdout:match("[^\n]*%S")), done
end

--- The folder of the newest shared framework.
local function framework()
  local listed = assert(exec({ "dotnet", "--list-runtimes" }, 60000))
  local found
  for version, folder in listed.stdout:gmatch("Microsoft%.NETCore%.App (%S+) %[([^%]]+)%]") do found = folder .. "/" .. version end
  return assert(found, "dotnet --list-runtimes names a framework")
end

local function modules_agree(folder)
  local files, sdk = {}, framework()
  for _, name in ipairs { "SymbolsPeer.dll", "Mono.Cecil.dll", "modules/Microsoft.ApplicationInsights.dll" } do
    files[#files + 1] = folder .. "/" .. name
  end
  for _, name in ipairs { "Shop.dll", "Embedded.dll" } do files[#files + 1] = h.source .. "/tests/data/symbols/" .. name end
  for _, name in ipairs(SDK) do files[#files + 1] = sdk .. "/" .. name end
  local counted, done = compare(folder, h.lunette, files)
  h.eq(0, counted.differences, done.stderr)
  h.eq({ 11, 1, 1, 1 }, { counted.modules, counted.native, counted.embedded, counted.windows }, "native, embedded, Windows")
  h.ok(counted.portable >= 2, "modules with a portable PDB beside them: " .. counted.portable)
  h.ok(counted.methods > 15000 and counted.points > 8000, ("%d methods, %d points"):format(counted.methods, counted.points))
end

-- What an altered answer of ours must not pass for.
local EDITS <const> = {
  line = 's/"line":51,/"line":52,/', column = 's/"endColumn":17/"endColumn":18/', name = "s/Spread/Spraed/",
  token = "s/0x06000004/0x06000044/", hidden = 's/,{"il":27,"hidden":true}//', file = "s/Generated[.]txt/Other.txt/",
  signature = "s/int [(]int[)]/int (long)/", size = 's/"size":90/"size":91/',
}

local function differences_are_found(folder)
  local module = h.source .. "/tests/data/symbols/Shop.dll"
  for what, edit in pairs(EDITS) do
    local script = h.scratch() .. "/altered.sh"
    assert(h.fs.write_private(script, ('#!/bin/sh\n"%s" "$@" | sed \'%s\'\n'):format(h.lunette, edit)))
    assert(exec({ "chmod", "700", script }, 10000))
    local counted, done = compare(folder, script, { module })
    h.ok(counted.differences > 0 and done.code == 1, "an altered " .. what .. " is told")
  end
end

return {
  {
    "modules agree with System.Reflection.Metadata and Mono.Cecil, and what differs is found",
    function(skip)
      local folder, why = peer()
      if not folder then skip(why) end
      differences_are_found(folder)
      modules_agree(folder)
    end,
  },
}
