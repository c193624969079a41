-- SPDX-License-Identifier: MIT
-- The rules of a generation, compiled when they are first asked for. Without a generation (a spec, a script) those of the product serve.
local lazy = require("lunette.lazy")
local compile = lazy("lunette.rules.compile")
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local hinting = lazy("lunette.rules.hinting")
local log = require("lunette.log")
local sys = require("lunette.sys")

local M = {}

-- What the files of a product's room declare.
local function product(room)
  local names, values = {}, {}
  for _, entry in ipairs(fs.list(("%s/lua/%s"):format(sys.home, room)) or {}) do
    names[#names + 1] = entry:match("^([%w_+-]+)%.lua$")
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local value = require(room .. "." .. name)
    for _, one in ipairs(type(value) == "table" and (declare.of(value) and { value } or value) or {}) do
      if declare.of(one) then values[#values + 1] = one end
    end
  end
  return values
end

local alone = { derived = function(self, key, make)
  self[key] = self[key] or make(self)
  return self[key]
end, list = function(_, room) return product(room) end }

--- The generation that serves this call; the product's own where there is none.
function M.generation()
  local current = generation.current()
  return #current.order > 0 and current or alone
end

--- What a layer is called: nil for the product.
local function layer_of(file)
  if file:sub(1, 1) ~= "/" then return nil end
  return file:match("^(.*)/[^/]+/[^/]+$")
end

-- The line of a declaration is looked up in its source: only when somebody wants to know.
local LAZY <const> = { __index = function(self, key)
  if key ~= "file" then return nil end
  local at = rawget(self, "at")
  self.file = ("%s:%d"):format(at.file, at.line)
  return self.file
end }

local function files_of(gen, room)
  local files = {}
  for _, value in ipairs(gen:list(room)) do
    local known = declare.of(value)
    if known then
      files[#files + 1] = setmetatable({
        name = known.declared.name or known.declared.id or known.at.file:match("([^/]+)%.lua$") or "?", value = known.declared,
        at = known.at, layer = layer_of(known.at.file),
      }, LAZY)
    end
  end
  return files
end

M.files_of = files_of

--- The compiled rules of a generation: of this call's when none is given.
---@param gen Generation?
---@return table set   see lunette.rules.compile
function M.of(gen)
  return (gen or M.generation()):derived("lunette.rules", function(self)
    local set = compile.compile(files_of(self, "rules"))
    hinting.compile(set, files_of(self, "hints"))
    for _, p in ipairs(set.problems) do
      if p.doubt then
        log.warning("rules", "a rule may never fire", { rule = p.name, file = p.file, problem = p.message })
      else
        log.error("rules", p.unreachable and "a hypothesis looks for a signal that no rule gives" or "a rule was left out",
          { rule = p.name, file = p.file, problem = p.message })
      end
    end
    return set
  end)
end

--- The hints for a capture, best first: those of its collector, then those that are declared for its kind of handle.
---@param kind string         of the handle
---@param capture HintCapture
---@param own table[]?        of the collector
---@return table[]
function M.hints(kind, capture, own)
  local list = table.move(own or {}, 1, own and #own or 0, 1, {})
  local more = hinting.of(M.of(), kind, capture)
  return table.move(more, 1, #more, #list + 1, list)
end

return M
