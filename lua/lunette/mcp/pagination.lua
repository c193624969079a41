-- SPDX-License-Identifier: MIT
--- Pages of a sorted list. A cursor names the list and the last key that was sent, so that nothing is kept and a list that changed
--- meanwhile goes on after that key. Pure.

local crypto = require("lunette.crypto")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local M = {}

M.PAGE_SIZE = 100
local MAX_CURSOR <const> = 4096

local function decode(cursor, kind)
  if type(cursor) ~= "string" or #cursor > MAX_CURSOR then return nil end
  local text = crypto.unbase64url(cursor)
  local value = text and json.decode(text)
  if not protocol.is_object(value) or value.k ~= kind or type(value.a) ~= "string" then return nil end
  return value.a
end

--- One page. `key` is the field that the list is sorted by.
---@param list table[]
---@param key string
---@param kind string      name of the list: a cursor of another list is refused
---@param cursor? string
---@param size? integer
---@return table[]|nil page
---@return string|table|nil next_cursor_or_err
function M.page(list, key, kind, cursor, size)
  size = size or M.PAGE_SIZE
  local from = 1
  if cursor ~= nil then
    local after = decode(cursor, kind)
    if not after then return nil, protocol.invalid_params("unknown cursor") end
    while list[from] and list[from][key] <= after do from = from + 1 end
  end
  local to = math.min(#list, from + size - 1)
  local page = table.move(list, from, to, 1, {})
  if to >= #list then return page end
  return page, crypto.base64url(json.encode({ k = kind, a = list[to][key] }))
end

return M
