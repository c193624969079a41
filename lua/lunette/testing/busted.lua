-- SPDX-License-Identifier: MIT
-- Runs busted inside lunette's own host: each test in a task of its own, so that it may wait, and what it opened is closed when it ends.
local fs = require("lunette.fs")
local loop = require("lunette.loop")

local M = {}

local TEST_TIMEOUT_MS <const> = 120000

--- Lets require find busted and what it needs, where Debian and LuaRocks put them.
function M.add_paths()
  package.path = table.concat({
    package.path, "/usr/local/share/lua/5.4/?.lua", "/usr/local/share/lua/5.4/?/init.lua",
    "/usr/share/lua/5.4/?.lua", "/usr/share/lua/5.4/?/init.lua",
  }, ";")
  local native = { "/usr/local/lib/lua/5.4/?.so" }
  for _, arch in ipairs(fs.list("/usr/lib") or {}) do
    if arch:find("-linux-", 1, true) then native[#native + 1] = ("/usr/lib/%s/lua/5.4/?.so"):format(arch) end
  end
  package.cpath = table.concat(native, ";")
end

--- busted's core, or nil and why it cannot be loaded.
---@return table? core, string? why
function M.load()
  local found, core = pcall(require, "busted.core")
  if found then return core end
  return nil, tostring(core):match("^[^\n]*")
end

-- Makes busted run the body of each test in a task.
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

-- Counts what the exit code depends on.
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

--- Runs the specs of some files and folders.
---@param core table   of M.load
---@param options { roots: string[], filter: string[], output: string }
---@return { ran: integer, failed: integer }
function M.run(core, options)
  local busted = core()
  require("busted")(busted)
  run_tests_as_tasks(busted)
  local seen = watch(busted)
  require("busted.modules.output_handler_loader")()(busted, options.output, {
    defaultOutput = "plainTerminal", language = "en", verbose = true, deferPrint = false, arguments = {},
  })
  require("busted.modules.filter_loader")()(busted, {
    tags = {}, excludeTags = {}, filter = options.filter, filterOut = {}, list = false, nokeepgoing = false,
  })
  local load = require("busted.modules.test_file_loader")(busted, { "lua" })
  load(options.roots, { "_spec%.lua$" }, { excludes = {}, recursive = true })
  require("busted.execute")(busted)(1, {})
  busted.publish({ "exit" })
  return seen
end

return M
