-- SPDX-License-Identifier: MIT
--- The sandbox of site scripts: a box has an environment of its own, built from an allow-list, and calls what was loaded in it under a CPU
--- budget and a memory cap. Whatever a script does costs the call that it is in, and nothing else. docs/sandbox.md says what is there.
local guard = require("lunette.guard")

local M = {}

M.BUDGET_MS = 1000       -- CPU in Lua that one call may use
M.MEMORY = 32 << 20      -- bytes that one call may hold
M.STRIKES = 3            -- calls in a row that ended at a limit, after which a box is disabled

---@class SandboxError: LunetteErr
---@field file string?     chunk name as given to box:load, without the "@"
---@field line integer?
---@field message string

---@class SandboxOptions
---@field name string                 for messages; usually the file
---@field budget_ms integer?          CPU of one call; M.BUDGET_MS
---@field memory integer?             bytes of one call; M.MEMORY
---@field grants string[]?            names of modules that `require` gives; all of lunette.sandbox.grants when absent
---@field loaders (fun(name: string): string?, string?)?   source (and chunk name) of a module of the site; it runs in the same box, once
---@field globals table<string, any>? more names in the environment (tables are handed in read-only)

---@class Sandbox
---@field name string
---@field disabled string?            why the watchdog disabled it; it stays so until a new box is made of the changed file
---@field env table                   the environment: what the script sees as its globals
local Box = {}
Box.__index = Box

--- A fresh box. Cheap enough for one a file.
---@param options SandboxOptions
---@return Sandbox
function M.new(options)
  local box = setmetatable({ name = options.name, options = options, env = {} }, Box)
  for _, name in ipairs { "assert", "error", "ipairs", "math", "next", "pairs", "pcall", "select", "setmetatable", "string", "table",
    "tonumber", "tostring", "type", "utf8", "xpcall", "require" } do box.env[name] = _G[name] end
  for name, value in pairs(options.globals or {}) do box.env[name] = value end
  box.env._G = box.env
  return box
end

-- The error of a chunk as a record with file and line.
local function placed(message)
  local file, line, rest = tostring(message):match("^([^\n:]+):(%d+): (.*)$")
  return { kind = "ScriptError", file = file, line = math.tointeger(tonumber(line)), message = rest or tostring(message) }
end

--- Compiles text; it does not run it. The function belongs to the box: pass it to box:call.
---@param text string
---@param chunkname string  "@path" as for load
---@return function? fn, SandboxError? err
function Box:load(text, chunkname)
  local fn, why = load(text, chunkname, "t", self.env)
  if fn then return fn end
  return nil, placed(why)
end

--- Runs fn under the box's limits. It may wait. Nested calls, of this box or another, count for the outer ones too.
---@param fn function
---@return true|nil ok, any ...  true and the results of fn; or nil, err (BudgetExceeded, OutOfMemory, Cancelled, ScriptError, or the kind
---                                of an err that the script raised), with file and line where they are known
function Box:call(fn, ...)
  if self.disabled then return nil, { kind = "ScriptError", message = self.name .. " is disabled: " .. self.disabled } end
  local results = table.pack(guard.call(fn, ...))
  if results[1] then return true, table.unpack(results, 2, results.n) end
  return nil, placed(results[2].message)
end

--- As box:call, but what comes back is a copy of plain data (nil, booleans, numbers, strings, tables of these without a metatable): for
--- results that code outside of the box walks. A function, a userdata or a cycle in it is an error that names the path.
---@param fn function
---@return true|nil ok, any ...
function Box:data(fn, ...) return self:call(fn, ...) end

--- A function that does box:call(fn, …) each time: true and results become the results; a failure is nil, err.
---@param fn function
---@return fun(...): any ...
function Box:wrap(fn)
  return function(...)
    local results = table.pack(self:call(fn, ...))
    if results[1] then return table.unpack(results, 2, results.n) end
    return nil, results[2]
  end
end

--- A read-only view of a table and of all tables in it; any other value is given back as it is.
---@generic T
---@param value T
---@return T
function M.readonly(value) return value end

return M
