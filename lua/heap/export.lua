-- SPDX-License-Identifier: MIT
-- A heap behind a handle as one page for a browser: what keeps what, as a treemap or a sunburst.
local artifacts = require("heap.artifact")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local site = require("lunette.site")
local wire = require("heap.wire")

local M = {}

local MAX_PAGE <const> = 1024 * 1024
local MARK <const> = "{{data}}"
local PAGE <const> = "/share/heapmap.html"
M.DEPTH, M.LEAST = 24, 4000 -- levels, and what part of all is too small to be seen

M.FORMAT = { suffix = ".html", mime = "text/html", page = true }

local function data_of(entry)
  local artifact = entry.artifact
  local rows, err = artifact.graph:tiles { depth = M.DEPTH, least = M.LEAST }
  if not rows then return nil, err end
  local out, number = { p = {}, n = {}, c = {}, v = {}, o = {}, a = {}, names = {} }, {}
  for i, row in ipairs(rows) do
    local name = row.name and wire.name(row.name)
    if name and not number[name] then
      number[name] = #out.names
      out.names[#out.names + 1] = name
    end
    out.p[i], out.n[i], out.c[i], out.v[i], out.o[i] = row.parent - 1, name and number[name] or -1, row.count, row.retained, row.own
    out.a[i] = row.address and numbers.address(row.address) or 0
  end
  for _, list in pairs(out) do json.array(list) end
  local of = entry.process_id ~= 0 and (" of process %d"):format(entry.process_id) or ""
  out.title = ("Heap%s, %s (%s)"):format(of, numbers.iso(entry.started_unix_ms), entry.origin)
  out.total, out.unreached = artifact.info.reached_bytes, artifact.info.unreached_bytes
  return out
end

--- The page.
---@param entry Handle   of a heap-snapshot
---@return string? html, table? err
function M.content(entry)
  local ok, err = artifacts.analysed(entry.artifact, "dominators", entry)
  if not ok then return nil, err end
  local data
  data, err = data_of(entry)
  if not data then return nil, err end
  local page
  page, err = fs.read(site.PRODUCT.dir .. PAGE, MAX_PAGE)
  if not page then return nil, err end
  local first, last = page:find(MARK, 1, true)
  if not first then return nil, errors.new("Internal", "The page of heaps has no place for data.", { hints = {} }) end
  local body = json.encode(data):gsub("<", "\\u003c") -- it would end the script element that holds the data
  return page:sub(1, first - 1) .. body .. page:sub(last + 1)
end

return M
