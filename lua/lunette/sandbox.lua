-- SPDX-License-Identifier: MIT
--- The sandbox of site scripts: a box has an environment of its own, built from an allow-list, and calls what was loaded in it under a CPU
--- budget and a memory cap. Whatever a script does costs the call that it is in, and nothing else. docs/sandbox.md says what is there.
require("lunette.json") -- whose marks plain data keeps
local environment = require("lunette.sandbox.environment")
local lazy = require("lunette.lazy")
local modules = require("lunette.sandbox.modules")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")

local M = {}

M.BUDGET_MS = 1000       -- CPU in Lua that one call may use
M.MEMORY = 32 << 20      -- bytes that one call may hold; a box may keep twice that over all of its calls
M.STRIKES = 3            -- calls in a row that ended at a limit, after which a box is disabled
M.HELD_MS = 250          -- CPU of one step that kept all others waiting, after which it is, too

---@class SandboxError: LunetteErr
---@field file string?     where it happened, as far as known
---@field line integer?
---@field message string   without the place

---@class SandboxOptions
---@field name string                 for messages; usually the file
---@field budget_ms integer?          CPU of one call; M.BUDGET_MS
---@field memory integer?             bytes of one call; M.MEMORY
---@field strikes integer?            M.STRIKES
---@field held_ms integer?            M.HELD_MS
---@field grants string[]?            names of modules that `require` gives; all of lunette.sandbox.grants when absent
---@field loaders (fun(name: string): string?, string?)?   source (and chunk name) of a module of the site; it runs in the same box, once
---@field globals table<string, any>? more names in the environment; tables are handed in read-only, functions as they are
---@field scopes string[]?            what the script declares; may be set later

---@class Sandbox
---@field name string
---@field scopes string[]?            the scopes that the script declares: granted functions that ask for more refuse. nil: none yet
---@field disabled string?            why the watchdog disabled it; it stays so until a new box is made of the changed file
---@field env table                   the environment: what the script sees as its globals
local Box = {}
Box.__index = Box

--- A fresh box. Cheap enough for one a file.
---@param options SandboxOptions
---@return Sandbox
function M.new(options)
  local box = {
    native.new(options.budget_ms or M.BUDGET_MS, options.memory or M.MEMORY, options.strikes or M.STRIKES,
      options.held_ms or M.HELD_MS),
    name = options.name, options = options, scopes = options.scopes, loaded = {}, loading = {},
  }
  box.env, box[2] = environment.new(options.name, options.globals)
  setmetatable(box, Box)
  box.env.require = modules.require(box)
  box.loaded["lunette.lazy"] = lazy.upon(box.env.require)
  return box
end

--- Compiles text under the box's limits; it does not run it. The function belongs to the box: pass it to box:call.
---@param text string
---@param chunkname string  "@path" as for load
---@return function? fn, SandboxError? err
function Box:load(text, chunkname)
  local ok, fn, why = self:call(native.load, text, chunkname, self.env)
  if not ok then return nil, fn end
  if fn then return fn end
  return nil, native.placed(why)
end

--- Runs fn(…) under the box's limits. It may wait. Calls inside of calls, of this box or another, count for the outer ones too.
--- box:call(fn, …) -> true, results; or nil, err (BudgetExceeded, OutOfMemory, Cancelled, ScriptError, or the kind of an err that the
--- script raised), with file and line where they are known.
---@type fun(self: Sandbox, fn: function, ...): true|nil, any ...
Box.call = native.call

--- As box:call, but nothing in it may wait: the code of a file, whose end all others would wait for.
---@type fun(self: Sandbox, fn: function, ...): true|nil, any ...
Box.call_now = native.call_now

--- As box:call, but what comes back is a copy of plain data (nil, booleans, numbers, strings, tables of these): for results that code
--- outside of the box walks. A function, a userdata or a table in itself is an error.
---@type fun(self: Sandbox, fn: function, ...): true|nil, any ...
Box.data = native.data

local function results_of(ok, ...)
  if ok then return ... end
  return nil, (...)
end

--- A function that does box:call(fn, …) each time: its results, or nil, err. Metatables that the script set are taken off the results, so
--- that whoever walks them runs nothing of the script's outside of its limits. Functions in the results are the caller's to wrap.
---@param fn function
---@return fun(...): any ...
function Box:wrap(fn)
  local clean = native.clean
  return function(...) return results_of(clean(self, fn, ...)) end
end

--- As box:wrap, but a wait in the function is an error.
---@param fn function
---@return fun(...): any ...
function Box:wrap_now(fn)
  local clean = native.clean_now
  return function(...) return results_of(clean(self, fn, ...)) end
end

--- Bytes that all calls of the box have left alive.
---@return integer
function Box:memory() return native.held(self) end

--- A read-only view of a table and of all tables in it; any other value is given back as it is.
---@generic T
---@param value T
---@return T
M.readonly = readonly.view

for _, mark in pairs(native.json_marks()) do native.marks[mark] = true end

return M
