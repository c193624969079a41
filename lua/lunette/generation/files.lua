-- SPDX-License-Identifier: MIT
-- Runs one file of a layer, in a box of its own, and gives what it declares, or what is wrong with it and where.
local lazy = require("lunette.lazy")
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local playbooks = require("lunette.playbooks")
local power = lazy("lunette.generation.power")
local grants = lazy("lunette.sandbox.grants")
local handed = require("lunette.sandbox.handed")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")
local sandbox = lazy("lunette.sandbox")
local site = require("lunette.site")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

local MAX_NODES <const> = 20000 -- values in one declaration
local MAX_DEPTH <const> = 40

---@class RunResult
---@field value any?          what the file declares
---@field disabled string?    or why it takes out what lies beneath
---@field problems Problem[]? or what is wrong
---@field deps table<string, { stamp: string?, source: string? }>  files of lib/ that it used, by path; empty for one that is not there
---@field box table?
---@field source string

-- The text of a script, without the mark of UTF-8 that some editors write; or nil, and what is wrong with it.
local function text_of(path, max)
  local source, err = fs.read(path, max)
  if source then return (source:gsub("^\xEF\xBB\xBF", "")) end
  if err.kind ~= "LimitExceeded" then return nil, "cannot be read: " .. tostring(err.message) end
  return nil, ("is longer than %d KiB, the most that a file may have: split it, or put a part of it into lib/"):format(max >> 10)
end

local function problem(file, line, message) return { { file = file, line = line or 1, message = message } } end

-- What looks at things that others look at, too, and may change none of them.
local HANDED <const> = { view = handed.of_view, signal = handed.shared, hint_rule = handed.shared, rule = handed.shared }

-- What is asked in calls that belong to others: a wait in it would be theirs.
local NO_WAIT <const> = { signal = true, hint_rule = true, rule = true, redaction = true }

local guarded -- below

-- The program that a collector makes for a call is a declaration, too: its functions run under the limits of the box.
local function program_of(run, values, box)
  return function(...)
    local program, err = run(values(...))
    if program == nil then return nil, err end
    local ok, copy = pcall(guarded, program, box, "collector", { n = 0 }, 1)
    if not ok then return nil, { kind = "ScriptError", message = tostring(copy) } end
    return copy
  end
end

-- A function of a declaration, under the limits of the box. field: that has it.
local function limited(fn, box, kind, field)
  local no_wait = NO_WAIT[kind] or kind == "tool" and field == "visible"
  local run, values, back = no_wait and box:wrap_now(fn) or box:wrap(fn), HANDED[kind] or handed.values, handed.back
  if kind == "collector" and field == "program" then return program_of(run, values, box) end
  local function given(first, ...) -- the functions of an artifact (close, …) are called by us, and run under the limits, too
    if type(first) == "table" then
      for name, member in next, first do
        if type(member) == "function" then first[name] = limited(member, box, kind) end
      end
    end
    return first, ...
  end
  return function(...) return given(back(run(values(...)))) end
end

local REMOVE <const> = sandbox.readonly(declare.remove) -- as scripts have it

-- A declaration as it is handed over: a copy, whose functions run under the limits of the box.
function guarded(value, box, kind, seen, depth, field)
  if type(value) == "function" then return limited(value, box, kind, field) end
  if value == REMOVE then return declare.remove end
  value = readonly.behind(value)
  if type(value) ~= "table" or declare.of(value) then return value end
  seen.n = seen.n + 1
  if depth > MAX_DEPTH or seen.n > MAX_NODES then error("a declaration may hold at most 20000 values, nested 40 deep", 0) end
  local out = {}
  for k, v in next, value do -- raw: nothing of the script's runs here
    out[k] = guarded(v, box, kind, seen, depth + 1, depth == 0 and k or nil)
  end
  local mark = debug.getmetatable(value)
  return mark and native.marks[mark] and setmetatable(out, mark) or out
end

-- What the modules of the words hold beside the word, for scripts.
local BESIDE <const> = {
  tool = { "process_id", "depth", "is_tool" }, view = { "is_view" },
  collector = { "source", "empty_recording", "is_gone", "without_ended" }, signal = { "find", "stands_out", "of_capture" },
}
M.BESIDE = BESIDE

-- The words of a declaration for one file and its box.
local function words_for(path, get_box)
  local env = { disable = declare.disable, remove = declare.remove }
  function env.extend(base, changes)
    local at = declare.place(path, "extend")
    local known = declare.of(base)
    if not known then
      error(("%s:%d: extend: the first argument is the declaration beneath (local base = ...); there is none at this path, since no layer "
        .. "beneath has such a file"):format(at.file, at.line), 0)
    end
    return declare.extend(base, guarded(changes, get_box(), known.kind, { n = 0 }, 0), at)
  end
  for _, kind in ipairs(declare.kinds()) do
    env[kind] = function(declared)
      local at = declare.place(path, kind)
      return declare.construct(kind, guarded(declared, get_box(), kind, { n = 0 }, 0), at)
    end
  end
  return env
end

-- require "lunette.tool" and the like: the same words, as our own files have them.
local function give_modules(path, box, env)
  for _, kind in ipairs(declare.kinds()) do
    local name = "lunette." .. kind
    local members = { [kind] = env[kind] }
    local granted = grants.MODULES[name]
    for _, member in ipairs(BESIDE[kind] or {}) do
      members[member] = granted and granted[member] and box.env.require(name)[member] or require(name)[member]
    end
    box.loaded[name] = setmetatable({}, {
      __index = members, __newindex = function() error(name .. " is read-only", 2) end, __metatable = "read-only",
      __call = function(_, declared)
        local at = declare.place(path, kind)
        return declare.construct(kind, guarded(declared, box, kind, { n = 0 }, 0), at)
      end,
    })
  end
end

local HELPERS <const> = { collectors = true, views = true, signals = true, samplers = true, heap = true, threads = true }

--- The product's own helper that is asked for ("collectors.gc.snapshot"), as a path; nil for any other name. It runs in the box of who
--- asks, so it can do no more than that.
---@param name string
---@return string?
function M.helper(name)
  local room = name:match("^(%l+)%.[%w_.+-]+$")
  if not HELPERS[room] then return nil end
  local path = ("%s/lua/%s.lua"):format(sys.home, (name:gsub("%.", "/")))
  return fs.stat(path) and path or nil
end

-- require "site.NAME": lib/NAME.lua of the file's own layer.
local function loader(file, deps)
  return function(name)
    local helper = M.helper(name)
    if helper then return fs.read(helper, site.MAX_SCRIPT), "@lua/" .. name:gsub("%.", "/") .. ".lua" end
    local short = name:match("^site%.([%w_.%-]+)$")
    if not short then return nil end
    local path = ("%s/lib/%s.lua"):format(file.layer.dir, (short:gsub("%.", "/")))
    local stamp = site.stamp(path)
    local source, why = text_of(path, site.MAX_SCRIPT)
    deps[path] = { stamp = stamp, source = source }
    if not source then
      local there = {}
      for i, entry in ipairs(fs.list(file.layer.dir .. "/lib") or {}) do there[i] = entry:gsub("%.lua$", "") end
      return nil, stamp and ("%s %s"):format(path, why) or path .. " is not there." .. text.did_you_mean(short, there)
    end
    return source, "@" .. path
  end
end

local function error_of(err, file)
  if type(err) ~= "table" then return problem(file.path, nil, tostring(err)) end
  local message = tostring(err.message or err)
  local at_file, line, rest = message:match("^([^\n:]+):(%d+): (.*)$")
  if at_file and not err.line then return problem(at_file, math.tointeger(tonumber(line)), rest) end
  return problem(err.file or file.path, err.line, message)
end

local OUTSIDE <const> = { io = true, debug = true, package = true, dofile = true, loadfile = true }

-- What a call of something that is not there was probably meant to call: a word, or a function of a granted module.
local function meant(p, source, box)
  local global = p.message:match("attempt to %a+ a nil value %(global '([%w_]+)'%)")
  if global and OUTSIDE[global] then
    p.message = ("%s: site scripts have no %s (docs/sandbox.md says what there is)"):format(p.message, global)
  elseif global then
    local near = text.did_you_mean(global, text.keys(box.env))
    if near ~= "" then p.message = p.message .. "." .. near end
  elseif p.message:find("attempt to call a nil value (field", 1, true) then
    for _, unknown in ipairs(power.unknown(source, p.file)) do
      if unknown.line == p.line then p.message = p.message .. ": " .. unknown.message end
    end
    local field = p.message:match("%(field '([%w_]+)'%)$")
    if field and type(os[field]) == "function" then
      p.message = p.message .. ": of os, site scripts have clock, date, difftime and time"
    end
  end
  return p
end

local function is_value(value, kind)
  local known = type(value) == "table" and declare.of(value)
  return known and known.kind == kind
end

-- What a file gave back must be what its room is for.
local function accept(value, file, room)
  if declare.is_disabled(value) then return { disabled = value.reason } end
  if is_value(value, room.kind) then return { value = value } end
  local wanted = ("%s { … }, extend(base, { … }) or disable \"reason\""):format(room.kind)
  if room.several and type(value) == "table" and not declare.of(value) and #value > 0 then
    local list = { is_several = true }
    for i, one in ipairs(value) do
      if not is_value(one, room.kind) then
        return { problems = problem(file.path, 1, ("item %d of the list is no %s { … }"):format(i, room.kind)) }
      end
      list[i] = one
    end
    return { value = list }
  end
  local known = type(value) == "table" and declare.of(value)
  if known then
    return { problems = problem(file.path, known.at.line, ("a file in %s/ returns %s; this is a %s: it belongs into %s/"):format(room.name,
      wanted, known.kind, declare.SCHEMAS[known.kind].room)) }
  end
  local got = value == nil and "nothing" or "a " .. type(value)
  return { problems = problem(file.path, 1, ("must return %s; it returned %s"):format(wanted, got)) }
end

-- Functions of a declaration beneath that look at an artifact: a script that calls them passes what it has, and gets what it may change.
local LOOKERS <const> = { view = "project", signal = "of" }

local function one_beneath(value)
  local copy, known = declare.beneath(value), declare.of(value)
  local name = known and LOOKERS[known.kind]
  local fn = name and copy[name]
  if fn then copy[name] = function(...) return handed.copies(fn(handed.back(...))) end end
  return copy
end

local function beneath(value)
  if type(value) ~= "table" then return nil end
  if not value.is_several then return one_beneath(value) end
  local list = {}
  for i, one in ipairs(value) do list[i] = one_beneath(one) end
  return list
end

--- Runs a script of a layer.
---@param file SiteFile
---@param room table
---@param base any   the value beneath
---@return RunResult
function M.run(file, room, base)
  if room.kind == "playbook" then return M.playbook(file) end
  local source, unread = text_of(file.path, site.MAX_SCRIPT)
  if not source then return { problems = problem(file.path, 1, unread), deps = {}, source = "" } end
  if source:find("^[\xFE\xFF][\xFE\xFF]") or source:sub(1, 400):find("\0", 1, true) then
    return { problems = problem(file.path, 1, "is no text in UTF-8"), deps = {}, source = source }
  end
  local deps, box = {}, nil
  local env = words_for(file.path, function() return box end)
  box = sandbox.new { name = file.path, globals = env, loaders = loader(file, deps) }
  give_modules(file.path, box, env)
  local watch = declare.watch(file.path, source)
  local chunk, why = box:load(source, "@" .. file.path)
  local result
  if not chunk then
    result = { problems = error_of(why, file) }
  else
    local ok, value = box:call_now(chunk, beneath(base))
    if #watch.problems > 0 then
      result = { problems = watch.problems }
    else
      result = ok and accept(value, file, room) or { problems = error_of(value, file) }
      if not ok then meant(result.problems[1], source, box) end
    end
  end
  declare.unwatch(file.path)
  result.deps, result.box, result.source = deps, box, source
  return result
end

--- Reads a playbook.
---@param file SiteFile
---@return RunResult
function M.playbook(file)
  local body, why = text_of(file.path, playbooks.MAX_BYTES)
  local result = { deps = {}, source = body }
  if not body then
    result.problems = problem(file.path, 1, why)
    return result
  end
  local playbook, problems = playbooks.read(body, file.path)
  result.value, result.problems = playbook, not playbook and problems or nil
  return result
end

--- The value of a file of the product: run by require, so that whoever requires the module has the same value.
---@param file SiteFile
function M.product(file)
  if file.room == "playbooks" then
    local playbook, problems = playbooks.read(assert(fs.read(file.path, playbooks.MAX_BYTES)), file.path)
    if not playbook then error(declare.format(problems[1]), 0) end
    return playbook
  end
  local value = require((file.id:gsub("/", ".")))
  local kind = site.ROOM[file.room].kind
  if is_value(value, kind) then return value end
  if type(value) == "table" and #value > 0 and is_value(value[1], kind) then
    local list = { is_several = true }
    for i, one in ipairs(value) do list[i] = one end
    return list
  end
  return nil -- a helper that lives in the same room
end

M.home = sys.home
return M
