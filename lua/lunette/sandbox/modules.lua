-- SPDX-License-Identifier: MIT
-- modules: what `require` gives in a box: granted modules as read-only tables of the granted functions, each of which asks for its scopes
-- when it is called; and the site's own modules, run in the box, once.
local faces = require("lunette.sandbox.faces")
local grants = require("lunette.sandbox.grants")
local loop = require("lunette.loop")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")
local text = require("lunette.text")

local M = {}

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
  if type(module) == "function" then return module end
  local special = faces.OF[name] or {}
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
    error(("require: there is no module %q for sandboxed scripts%s%s"):format(name, chunkname and ": " .. chunkname or ".",
      chunkname and "" or text.did_you_mean(name, granted)), 2)
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
