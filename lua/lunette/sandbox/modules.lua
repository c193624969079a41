-- SPDX-License-Identifier: MIT
-- modules: what `require` gives in a box: granted modules as read-only tables of the granted functions, each of which asks for its scopes
-- when it is called; and the site's own modules, run in the box, once.
local grants = require("lunette.sandbox.grants")
local loop = require("lunette.loop")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")
local text = require("lunette.text")

local M = {}

local MAX_SPAWNED <const> = 8       -- tasks of one call
local MAX_REGEX_TEXT <const> = 1 << 20 -- bytes that a regular expression searches at once: it works unseen

-- ---- functions that a script gets in a form of its own ------------------------------------------------------------------------------

-- A task of the script's: it runs under the limits of the box, and is cancelled when the call that spawned it ends.
local function spawn(box)
  return function(fn, ...)
    if type(fn) ~= "function" then error("loop.spawn: a function", 2) end
    if loop.current().data.sandbox_child then error("loop.spawn: a task that was spawned cannot spawn", 2) end
    local task = loop.spawn(function(...)
      loop.current().data.sandbox_child = true
      return box:wrap(fn)(...)
    end, ...)
    if not native.adopt(task, MAX_SPAWNED) then
      task:cancel("too many tasks")
      error(("loop.spawn: a call has at most %d tasks"):format(MAX_SPAWNED), 2)
    end
    return {
      await = function(_, timeout_ms) return task:await(timeout_ms) end, done = function() return task:done() end,
      cancel = function(_, reason) task:cancel(type(reason) == "string" and reason or nil) end,
    }
  end
end

local function check_text(what, subject)
  if #subject > MAX_REGEX_TEXT then error(("regex: %s: the text is longer than 1 MiB"):format(what), 3) end
end

local function compile(pattern)
  local regex = require("lunette.regex")
  local expression, err = regex.compile(pattern)
  if not expression then return nil, err end
  return readonly.view {
    find = function(_, subject, init) check_text("find", subject) return expression:find(subject, init) end,
    gsub = function(_, subject, replacement) check_text("gsub", subject) return expression:gsub(subject, replacement) end,
  }
end

-- What a session is opened with: a file that was resolved for this call, if any, and none to write.
local function open_options(given)
  if type(given) ~= "table" then error("a table of options is needed", 3) end
  local options = {}
  for k, v in next, given do options[k] = v end -- raw: it stays what is looked at here
  if options.save_to ~= nil then error("save_to is not available to sandboxed scripts", 3) end
  if options.path ~= nil and not require("collectors.recordings").is_resolved(options.path) then
    error("path must be one that lunette.collector.source(ctx, args) gave in this call", 3)
  end
  return options
end

local function open_events()
  return function(options) return require("lunette.events").open(open_options(options)) end
end

local function with_program(name)
  return function()
    return function(ctx, program, options) return require("lunette.probe")[name](ctx, program, open_options(options)) end
  end
end

local function finder(name)
  return function(box) return require("lunette.sandbox.handed").finder(box, require("lunette.handles")[name]) end
end

-- Functions of lunette.json, which takes tables as they are: views are looked behind.
local function encode() return function(value, ...) return require("lunette.json").encode(readonly.plain(value), ...) end end

local function array()
  return function(list)
    local own = readonly.behind(list) == list and list or table.move(list, 1, #list, 1, {})
    return require("lunette.json").array(own)
  end
end

local function is_array() return function(value) return require("lunette.json").is_array(readonly.behind(value)) end end

-- The captures of a journey are others' as well.
local function journey_captures()
  return function(entry, options)
    local list, err = require("lunette.journey").captures(entry, options)
    if not list then return nil, err end
    local out = {}
    for i, one in ipairs(list) do out[i] = one == entry and one or require("lunette.sandbox.handed").entry(one) end
    return out
  end
end

local function journey_view()
  return function(entry, options, comparable)
    return require("lunette.journey").view(entry, options, function(artifact)
      return readonly.plain(comparable(readonly.view(readonly.behind(artifact))))
    end)
  end
end

local SPECIAL <const> = {
  ["lunette.json"] = { encode = encode, array = array, is_array = is_array },
  ["lunette.journey"] = { captures = journey_captures, view = journey_view },
  ["lunette.loop"] = { spawn = spawn },
  ["lunette.regex"] = { compile = function() return compile end },
  ["lunette.events"] = { open = open_events },
  ["lunette.probe"] = { run = with_program("run"), open = with_program("open") },
  ["lunette.kinds"] = { get = function() return function(name) return readonly.view(require("lunette.kinds").get(name)) end end },
  ["lunette.handles"] = { get = finder("get"), peek = finder("peek"), latest = finder("latest") },
}

-- ---- granted modules ----------------------------------------------------------------------------------------------------------------

local function missing(declared, scopes)
  local set, list = {}, {}
  for _, scope in ipairs(declared or {}) do set[scope] = true end
  for _, scope in ipairs(scopes) do
    if not set[scope] then list[#list + 1] = scope end
  end
  return list
end

-- A function that works only while the script declares the scopes. `box.scopes` is what it declares.
local function scoped(box, label, fn, scopes)
  if #scopes == 0 then return fn end
  return function(...)
    local lacks = missing(box.scopes, scopes)
    if #lacks > 0 then
      local names = table.concat(lacks, ", ")
      error(("%s asks for the scope %s, which this script does not declare%s"):format(label, names,
        box.scopes and "" or ", or not yet: call it inside a function, not at the top of the file"), 2)
    end
    return fn(...)
  end
end

local function facade(box, name)
  local module, out = require(name), {}
  local special = SPECIAL[name] or {}
  for member, scopes in pairs(grants.MODULES[name]) do
    local value = module[member]
    if special[member] then value = special[member](box) end
    if type(value) == "function" then
      out[member] = scoped(box, name .. "." .. member, value, scopes)
    else
      out[member] = readonly.view(value)
    end
  end
  return setmetatable({}, {
    __index = out, __newindex = function(_, key) error(("%s is read-only (field %s)"):format(name, tostring(key)), 2) end,
    __pairs = function() return pairs(readonly.view(out)) end, __metatable = "read-only",
  })
end

-- ---- the site's own modules ---------------------------------------------------------------------------------------------------------

local function load_site(box, name)
  local source, chunkname = box.options.loaders(name)
  if not source then
    local granted = box.options.grants or grants.names()
    error(("require: there is no module %q for sandboxed scripts%s.%s"):format(name, chunkname and " (" .. chunkname .. ")" or "",
      text.did_you_mean(name, granted)), 2)
  end
  local task = loop.current()
  if box.loading[name] == task then error(("require: %s requires itself, directly or through others"):format(name), 2) end
  box.loading[name] = task
  local chunk, why = native.load(source, chunkname or "@" .. name, box.env)
  if not chunk then
    box.loading[name] = nil
    error(why, 0)
  end
  local ok, value = xpcall(chunk, function(raised) return raised end, name)
  box.loading[name] = nil
  if not ok then error(value, 0) end
  if value == nil then value = true end
  -- Two tasks may have run it at the same time: the first one's stays.
  if box.loaded[name] == nil then box.loaded[name] = value end
  return box.loaded[name]
end

local function none() return nil end

--- `require` of a box.
---@param box Sandbox
function M.require(box)
  local granted = {}
  for _, name in ipairs(box.options.grants or grants.names()) do granted[name] = grants.MODULES[name] ~= nil end
  box.options.loaders = box.options.loaders or none
  return function(name)
    if type(name) ~= "string" then error("require: the name of a module", 2) end
    local known = box.loaded[name]
    if known ~= nil then return known end
    if not granted[name] then return load_site(box, name) end
    box.loaded[name] = facade(box, name)
    return box.loaded[name]
  end
end

return M
