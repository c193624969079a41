-- SPDX-License-Identifier: MIT
--- Runs busted inside lunette's own host: `lunette lua tests/lua/run.lua [--filter=PATTERN] [--output=NAME] [file or folder...]`.
--- Each test runs in a task of its own, so that it may wait, and what it opened is closed when it ends. Exit code 0: all passed;
--- 1: a test failed, or none ran; 77: busted is not installed.
local bust = require("lunette.testing.busted")
local fs = require("lunette.fs")
local log = require("lunette.log")

local SKIPPED <const> = 77

local function add_paths(root)
  package.path = table.concat({ package.path, root .. "/tests/lua/?.lua", root .. "/tests/?.lua" }, ";")
  bust.add_paths()
end

local function parse(args)
  local opts = { roots = {}, filter = {}, output = "plainTerminal" }
  for _, a in ipairs(args) do
    local name, value = a:match("^%-%-(%w+)=(.*)$")
    if name == "filter" then
      opts.filter[#opts.filter + 1] = value
    elseif name == "output" then
      opts.output = value
    elseif a:sub(1, 1) == "-" then
      error("unknown option " .. a, 0)
    else
      opts.roots[#opts.roots + 1] = a
    end
  end
  return opts
end

local function main(args)
  local here = assert(fs.realpath(arg[0])):match("^(.*)/[^/]*$")
  local root = here:match("^(.*)/tests/lua$")
  add_paths(root)
  local core, why = bust.load()
  if not core then
    io.stderr:write("skipped: busted cannot be loaded (Debian package lua-busted): ", why, "\n")
    return SKIPPED
  end
  local opts = parse(args)
  if #opts.roots == 0 then opts.roots[1] = here end
  log.level("error") -- what the tests provoke on purpose would bury what failed
  local seen = bust.run(core, opts)
  if seen.ran == 0 then
    io.stderr:write("no test ran\n")
    return 1
  end
  return seen.failed == 0 and 0 or 1
end

return main({ ... })
