-- SPDX-License-Identifier: MIT
-- A small runner for specs where busted is not installed: describe, it, before_each and the usual assertions, with the same words.
local fs = require("lunette.fs")
local loop = require("lunette.loop")

local M = {}

local MAX_SPEC <const> = 1024 * 1024
local TEST_TIMEOUT_MS <const> = 120000
local MAX_SHOWN <const> = 2000 -- bytes of a value in a message

-- ---- assertions ---------------------------------------------------------------------------------------------------------------------

local function shown(value, depth)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  if depth > 6 then return "{…}" end
  local keys, parts = {}, {}
  for k in pairs(value) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(keys) do
    parts[#parts + 1] = (type(k) == "string" and k or "[" .. tostring(k) .. "]") .. " = " .. shown(value[k], depth + 1)
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function show(value)
  local text = shown(value, 0)
  return #text <= MAX_SHOWN and text or text:sub(1, MAX_SHOWN) .. "…"
end

local function same(a, b)
  if a == b then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local function raised(fn)
  local ok, err = pcall(fn)
  return not ok, err
end

-- name -> function(...) -> holds, what was expected, what came
local CHECKS <const> = {
  equal = function(expected, got) return expected == got, show(expected), show(got) end,
  same = function(expected, got) return same(expected, got), show(expected), show(got) end,
  ["true"] = function(got) return got == true, "true", show(got) end,
  ["false"] = function(got) return got == false, "false", show(got) end,
  ["nil"] = function(got) return got == nil, "nil", show(got) end,
  truthy = function(got) return not not got, "a true value", show(got) end,
  falsy = function(got) return not got, "nil or false", show(got) end,
  near = function(expected, got, tolerance)
    local fits = type(got) == "number" and math.abs(got - expected) <= tolerance
    return fits, ("%s, at most %s off"):format(show(expected), show(tolerance)), show(got)
  end,
  matches = function(pattern, got, init, plain)
    return type(got) == "string" and got:find(pattern, init, plain) ~= nil, "a text that matches " .. show(pattern), show(got)
  end,
  error = function(fn, expected)
    local thrown, err = raised(fn)
    if expected == nil or not thrown then return thrown, "an error", "none" end
    return same(expected, err), show(expected), show(err)
  end,
  ["function"] = function(got) return type(got) == "function", "a function", show(got) end,
  table = function(got) return type(got) == "table", "a table", show(got) end,
  string = function(got) return type(got) == "string", "a text", show(got) end,
  number = function(got) return type(got) == "number", "a number", show(got) end,
}
local SYNONYMS <const> = { equals = "equal", errors = "error", error_ = "error", match = "matches", is_true = "true" }
local FILLERS <const> = { is = true, are = true, has = true, have = true, does = true, was = true }
local NEGATIONS <const> = { ["not"] = true, no = true }

-- assert.are_not.equal, assert.is_true, assert.has_error: words with _ or . between them.
local function chain(words)
  return setmetatable({}, {
    __index = function(_, word)
      local more = { table.unpack(words) }
      for part in word:gmatch("[^_]+") do more[#more + 1] = part end
      return chain(more)
    end,
    __call = function(_, ...)
      local negated, name = false, nil
      for _, word in ipairs(words) do
        if NEGATIONS[word] then negated = not negated elseif not FILLERS[word] then name = SYNONYMS[word] or word end
      end
      local check = CHECKS[name or "truthy"]
      if not check then
        error(("assert.%s: there is no such assertion; there are equal, same, is_true, is_false, is_nil, truthy, falsy, near, matches, "
          .. "has_error"):format(table.concat(words, ".")), 2)
      end
      local holds, expected, got = check(...)
      if holds == negated then error({ failure = ("expected %s%s\n     got %s"):format(negated and "anything but " or "", expected, got),
        place = debug.traceback("", 2):match("\n%s*([^\n]-:%d+):") }, 0) end
      return ...
    end,
  })
end

local function new_assert()
  return setmetatable({}, {
    __index = function(_, word) return chain({})[word] end,
    __call = function(_, value, message, ...)
      if value then return value, message, ... end
      error(message == nil and "assertion failed" or message, 0)
    end,
  })
end

-- ---- blocks and tests -----------------------------------------------------------------------------------------------------------------

local function new_block(name, parent) return { name = name, parent = parent, children = {}, hooks = {} } end

local HOOKS <const> = { "setup", "teardown", "before_each", "after_each", "lazy_setup", "lazy_teardown" }
local HOOK_NAMES <const> = { lazy_setup = "setup", lazy_teardown = "teardown" }

-- The words of a spec file, which fill the tree below `root`.
local function environment(root)
  local current = root
  local env = { assert = new_assert() }
  function env.describe(name, fn)
    local block = new_block(name, current)
    current.children[#current.children + 1] = block
    current = block
    local ok, err = xpcall(fn, debug.traceback)
    current = block.parent
    if not ok then
      block.children[#block.children + 1] = { test = true, name = "(the block itself)", fn = function() error(err, 0) end }
    end
  end
  env.context, env.insulate, env.expose = env.describe, env.describe, env.describe
  function env.it(name, fn) current.children[#current.children + 1] = { test = true, name = name, fn = fn } end
  env.spec, env.test = env.it, env.it
  function env.pending(name) current.children[#current.children + 1] = { test = true, name = name, pending = true } end
  for _, hook in ipairs(HOOKS) do
    local kind = HOOK_NAMES[hook] or hook
    env[hook] = function(fn)
      current.hooks[kind] = current.hooks[kind] or {}
      table.insert(current.hooks[kind], fn)
    end
  end
  return setmetatable(env, { __index = _G })
end

local function call_hooks(block, kind)
  for _, fn in ipairs(block.hooks[kind] or {}) do fn() end
end

local function around(block, kind, outward)
  if block.parent and not outward then around(block.parent, kind) end
  call_hooks(block, kind)
  if block.parent and outward then around(block.parent, kind, true) end
end

local function text_of(err)
  if type(err) == "table" and err.failure then return (err.place and err.place .. ": " or "") .. err.failure end
  if type(err) == "table" and err.message then return tostring(err.message) end
  return tostring(err)
end

local function explain(err)
  if type(err) == "table" then return err end
  return tostring(err)
end

-- One test, in a task: it may wait, and what it opened is closed when it ends.
local function run_test(block, test)
  local task <const> = loop.spawn(function()
    loop.set_budget(-1)
    local ok, err = xpcall(function()
      around(block, "before_each")
      test.fn()
    end, explain)
    local closed, why = xpcall(around, explain, block, "after_each", true)
    if not ok then return { err = err } end
    return closed and {} or { err = why }
  end)
  local done, err = task:await(TEST_TIMEOUT_MS)
  if not done then
    task:cancel("the test took too long")
    return tostring(err)
  end
  return done.err ~= nil and text_of(done.err) or nil
end

local function full_name(block, test)
  local names = { test.name }
  while block and block.name do
    table.insert(names, 1, block.name)
    block = block.parent
  end
  return table.concat(names, " ")
end

local function wanted(name, filter)
  for _, pattern in ipairs(filter) do
    if not name:find(pattern) then return false end
  end
  return true
end

local function run_block(block, run)
  local ok, err = xpcall(call_hooks, explain, block, "setup")
  if not ok then run.fail(full_name(block, { name = "(setup)" }), text_of(err)) end
  for _, child in ipairs(ok and block.children or {}) do
    local name = child.test and full_name(block, child)
    if not child.test then
      run_block(child, run)
    elseif wanted(name, run.filter) then
      if child.pending or not child.fn then
        run.pending = run.pending + 1
      else
        local why = run_test(block, child)
        run.ran = run.ran + 1
        if why then run.fail(name, why) else run.write("+") end
      end
    end
  end
  local closed, why = xpcall(call_hooks, explain, block, "teardown")
  if not closed then run.fail(full_name(block, { name = "(teardown)" }), text_of(why)) end
end

local function files_of(root, into)
  local stat = fs.stat(root)
  if stat and stat.kind == "file" then
    into[#into + 1] = root
    return
  end
  local entries = fs.list(root) or {}
  table.sort(entries)
  for _, entry in ipairs(entries) do
    local path = root .. "/" .. entry
    local inner = fs.stat(path)
    if entry:find("_spec%.lua$") then into[#into + 1] = path elseif inner and inner.kind == "directory" then files_of(path, into) end
  end
end

--- Runs the specs of some files and folders, and writes what failed.
---@param options { roots: string[], filter: string[], write: fun(text: string) }
---@return { ran: integer, failed: integer, pending: integer }
function M.run(options)
  local failures = {}
  local run = { ran = 0, failed = 0, pending = 0, filter = options.filter, write = options.write }
  function run.fail(name, why)
    run.failed = run.failed + 1
    failures[#failures + 1] = ("\nFailure -> %s\n%s\n"):format(name, why)
    options.write("-")
  end
  local files = {}
  for _, root in ipairs(options.roots) do files_of(root, files) end
  for _, path in ipairs(files) do
    local root = new_block(nil, nil)
    local source, err = fs.read(path, MAX_SPEC)
    local chunk, why = nil, err and tostring(err)
    if source then chunk, why = load(source, "@" .. path, "t", environment(root)) end
    local ok = false
    if chunk then ok, why = xpcall(chunk, debug.traceback) end
    if not ok then run.fail(path, text_of(why)) end
    run_block(root, run)
  end
  options.write(("\n%d successes / %d failures / %d pending\n"):format(run.ran - run.failed, run.failed, run.pending))
  for _, text in ipairs(failures) do options.write(text) end
  return run
end

return M
