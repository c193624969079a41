-- SPDX-License-Identifier: MIT
-- What a file of pprof says (google/pprof, profile.proto), read apart from what writes it.
local fs = require("lunette.fs")
local loop = require("lunette.loop")

local M = {}

local SAMPLE <const>, LOCATION <const>, FUNCTION <const>, STRING <const> = 2, 4, 5, 6

local function varint(text, at)
  local v, shift = 0, 0
  while true do
    local b = text:byte(at)
    v, shift, at = v | (b & 0x7f) << shift, shift + 7, at + 1
    if b < 0x80 then return v, at end
  end
end

-- The fields of a message: number, a number or bytes.
local function fields(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local key, v
    key, at = varint(text, at)
    v, at = varint(text, at)
    if key & 7 == 0 then return key >> 3, v end
    assert(key & 7 == 2, "a field that is neither number nor bytes")
    at = at + v
    return key >> 3, text:sub(at - v, at - 1)
  end
end

local function record(text)
  local out = {}
  for number, v in fields(text) do out[number] = v end
  return out
end

local function numbers(text)
  local list, at = {}, 1
  while at <= #text do
    list[#list + 1], at = varint(text, at)
  end
  return list
end

--- Its methods by name, { file?, line?, start_line?, count = samples of its own }, and how many samples there are.
---@param content string   of the file
---@return table<string, table> functions, integer samples
function M.read(content)
  local path = os.tmpname()
  assert(fs.write_private(path, content))
  local done = assert(loop.exec { argv = { "gzip", "-dc", path }, timeout_ms = 30000, max_output = 64 * 1024 * 1024 })
  assert(fs.remove(path))
  assert(done.code == 0, done.stderr)
  local texts, functions, locations, samples = {}, {}, {}, {}
  for number, v in fields(done.stdout) do
    if number == STRING then texts[#texts + 1] = v end
    if number == FUNCTION then functions[record(v)[1]] = record(v) end
    if number == LOCATION then locations[record(v)[1]] = record(record(v)[4]) end
    if number == SAMPLE then samples[#samples + 1] = v end
  end
  local by_name, of, all = {}, {}, 0
  for id, line in pairs(locations) do
    local f = functions[line[1]]
    of[id] = { file = f[4] and texts[f[4] + 1], line = line[2], start_line = f[5], count = 0 }
    by_name[texts[f[2] + 1]] = of[id]
  end
  for _, text in ipairs(samples) do
    local sample = record(text)
    local leaf, count = numbers(sample[1])[1], numbers(sample[2])[1]
    if leaf then of[leaf].count = of[leaf].count + count end
    all = all + count
  end
  return by_name, all
end

--- What pprof itself prints of a file, or nil, why.
---@param content string
---@param option string   of what to print
function M.tool(content, option)
  local path = os.tmpname()
  assert(fs.write_private(path, content))
  local done = loop.exec { argv = { "go", "tool", "pprof", option, path }, timeout_ms = 60000, max_output = 4 * 1024 * 1024 }
  assert(fs.remove(path))
  if done and done.code == 0 then return done.stdout end
  return nil, "there is no `go tool pprof`"
end

return M
