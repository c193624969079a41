-- SPDX-License-Identifier: MIT
--- Runs busted inside lunette's own host: `lunette lua tests/lua/run.lua [--filter=PATTERN] [--output=NAME] [file or folder...]`.
--- Each test runs in a task of its own, so that it may wait, and what it opened is closed when it ends. Exit code 0: all passed;
--- 1: a test failed, or none ran; 77: busted is not installed.
local fs = require("lunette.fs")
local log = require("lunette.log")
local loop = require("lunette.loop")

local TEST_TIMEOUT_MS <const> = 120000
local SKIPPED <const> = 77

local function add_paths(root)
  package.path = table.concat({
    package.path, root .. "/tests/lua/?.lua", root .. "/tests/?.lua",
    "/usr/local/share/lua/5.4/?.lua", "/usr/local/share/lua/5.4/?/init.lua",
    "/usr/share/lua/5.4/?.lua", "/usr/share/lua/5.4/?/init.lua",
  }, ";")
  local native = { "/usr/local/lib/lua/5.4/?.so" }
  for _, arch in ipairs(fs.list("/usr/lib") or {}) do
    if arch:find("-linux-", 1, true) then native[#native + 1] = ("/usr/lib/%s/lua/5.4/?.so"):format(arch) end
  end
  package.cpath = table.concat(native, ";")
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

--- Makes busted run the body of each test in a task.
local function run_tests_as_tasks(busted)
  local safe = busted.safe
  busted.safe = function(descriptor, run, element)
    if descriptor ~= "it" then return safe(descriptor, run, element) end
    local test <const> = loop.spawn(function()
      loop.set_budget(-1)
      return safe(descriptor, run, element)
    end)
    local status, err = test:await(TEST_TIMEOUT_MS)
    if status then return status end
    test:cancel("the test took too long")
    return safe(descriptor, function() error(tostring(err), 0) end, element)
  end
end

--- Counts what the exit code depends on.
local function watch(busted)
  local seen = { ran = 0, failed = 0 }
  busted.subscribe({ "test", "end" }, function(_, _, status)
    if status ~= "pending" then seen.ran = seen.ran + 1 end
    return nil, true
  end)
  local function count()
    seen.failed = seen.failed + 1
    return nil, true
  end
  busted.subscribe({ "error" }, count)
  busted.subscribe({ "failure" }, count)
  return seen
end

local function load_specs(busted, opts)
  require("busted.modules.filter_loader")()(busted, {
    tags = {}, excludeTags = {}, filter = opts.filter, filterOut = {}, list = false, nokeepgoing = false,
  })
  local load = require("busted.modules.test_file_loader")(busted, { "lua" })
  load(opts.roots, { "_spec%.lua$" }, { excludes = {}, recursive = true })
end

local function main(args)
  local here = assert(fs.realpath(arg[0])):match("^(.*)/[^/]*$")
  local root = here:match("^(.*)/tests/lua$")
  add_paths(root)
  local found, core = pcall(require, "busted.core")
  if not found then
    io.stderr:write("skipped: busted cannot be loaded (Debian package lua-busted): ", tostring(core):match("^[^\n]*"), "\n")
    return SKIPPED
  end
  local opts = parse(args)
  if #opts.roots == 0 then opts.roots[1] = here end
  local busted = core()
  require("busted")(busted)
  log.level("error") -- what the tests provoke on purpose would bury what failed
  run_tests_as_tasks(busted)
  local seen = watch(busted)
  require("busted.modules.output_handler_loader")()(busted, opts.output, {
    defaultOutput = "plainTerminal", language = "en", verbose = true, deferPrint = false, arguments = {},
  })
  load_specs(busted, opts)
  require("busted.execute")(busted)(1, {})
  busted.publish({ "exit" })
  if seen.ran == 0 then
    io.stderr:write("no test ran\n")
    return 1
  end
  return seen.failed == 0 and 0 or 1
end

return main({ ... })
