-- SPDX-License-Identifier: MIT
-- MethodIdentity: what names a managed method to other tools: (module version id, token), with names and source line beside it.
local lazy = require("lunette.lazy")
local ilc = lazy("samplers.ilc")
local json = require("lunette.json")

local M = {}

local ORDER <const> = { __order = {
  "methodName", "genericArity", "moduleName", "modulePath", "moduleVersionId", "metadataToken", "typeFullName", "genericTypeArguments",
  "closedSignature", "source",
} }
local SOURCE_ORDER <const> = { __order = { "file", "startLine", "endLine", "sourceLink" } }
local MANAGED <const> = { managed = true, dynamic = true }
local MAX_NAME <const> = 2048 -- bytes; an answer has to have room for all
local SHARED <const> = "System.__Canon" -- stands for any reference type in code that several instantiations share

--- "List`1[System.Int32]" -> "List`1", { "System.Int32" }. Without arguments: the text and an empty list.
---@param text string
---@return string base, string[] arguments
function M.split(text)
  local open = text:find("[", 1, true)
  if not open or text:sub(-1) ~= "]" or text:find("^%[[,%]]", open) then return text, {} end
  local arguments, depth, from = {}, 0, open + 1
  for i = open + 1, #text - 1 do
    local c = text:byte(i)
    if c == 0x5b then depth = depth + 1 elseif c == 0x5d then depth = depth - 1 end
    if c == 0x2c and depth == 0 then
      arguments[#arguments + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  arguments[#arguments + 1] = text:sub(from, #text - 1)
  return text:sub(1, open - 1), arguments
end

local function closed(arguments)
  for _, name in ipairs(arguments) do
    if name:find(SHARED, 1, true) then return false end
  end
  return true
end

local function instantiation(of_type, of_method)
  local size = 0
  for _, list in ipairs { of_type, of_method } do
    for _, name in ipairs(list) do size = size + #name end
  end
  if size == 0 or size > MAX_NAME or not closed(of_type) or not closed(of_method) then return nil end
  return setmetatable({ type = json.array(of_type), method = json.array(of_method) }, { __order = { "type", "method" } })
end

--- The identity of a method of NativeAOT by its symbol: by name only, without a module version id and a token.
---@param symbol string
---@param program string   name of the program's file
---@return table
function M.of_symbol(symbol, program)
  local n = ilc.parse(symbol, program)
  return setmetatable({
    methodName = n.method, genericArity = n.arity, moduleName = n.assembly, typeFullName = n.type_name,
  }, ORDER)
end

---@class SampleSource
---@field file string
---@field line integer
---@field start_line integer?   of the method
---@field end_line integer?
---@field url string?

local function location(source)
  if not source then return nil end
  return setmetatable({ file = source.file, startLine = source.line, endLine = source.end_line, sourceLink = source.url }, SOURCE_ORDER)
end

--- The identity of a frame; nil for what is no method of a module: native code, the root, an address without a name.
---@param frame table     of artifact:frame()
---@param module table?   of artifact:modules(), with mvid
---@param source SampleSource?
---@return table?
function M.of(frame, module, source)
  if not MANAGED[frame.kind] then return nil end
  local type_name, of_type = M.split(frame.type or "")
  local name, of_method = M.split(frame.name ~= "" and frame.name or frame.method)
  if #name > MAX_NAME or #type_name > MAX_NAME then return nil end -- code that a program made: no tool finds it by its name
  local token = frame.token ~= 0 and frame.token or nil
  return setmetatable({
    methodName = name, genericArity = #of_method, moduleName = module and module.name or nil, modulePath = module and module.path or nil,
    moduleVersionId = token and module and module.mvid or nil, metadataToken = token, typeFullName = type_name ~= "" and type_name or nil,
    genericTypeArguments = instantiation(of_type, of_method), source = location(source),
  }, ORDER)
end

return M
