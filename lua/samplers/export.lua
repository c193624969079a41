-- SPDX-License-Identifier: MIT
-- A profile behind a handle in the form that another program, or a browser, reads.
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local numbers = require("lunette.numbers")
local site = require("lunette.site")

local M = {}

local MAX_PAGE <const> = 1024 * 1024
local MARK <const> = "{{data}}"
local PAGE <const> = "/share/flamegraph.html"

--- What each format is: the native writer, the end of a file's name, the type of its content.
M.FORMATS = {
  flamegraph = { writer = "flame", suffix = ".html", mime = "text/html", page = true },
  speedscope = { writer = "speedscope", suffix = ".speedscope.json", mime = "application/json" },
  folded = { writer = "folded", suffix = ".folded.txt", mime = "text/plain" },
  pprof = { writer = "pprof", suffix = ".pb.gz", mime = "application/gzip", binary = true },
  flame = { writer = "flame", suffix = ".flame.json", mime = "application/json", max_nodes = 8000 },
}

--- The page of flame graphs around its data; without data the page asks the client that shows it.
---@param data string?   JSON
---@return string? html, table? err
function M.page(data)
  local text, err = fs.read(site.PRODUCT.dir .. PAGE, MAX_PAGE)
  if not text then return nil, err end
  local first, last = text:find(MARK, 1, true)
  if not first then return nil, errors.new("Internal", "The page of flame graphs has no place for data.", { hints = {} }) end
  return text:sub(1, first - 1) .. (data or "null") .. text:sub(last + 1)
end

local function title_of(entry, baseline)
  local what = entry.kind == "allocation-sample" and "Allocations" or "Stack samples"
  local of = entry.process_id ~= 0 and (" of process %d"):format(entry.process_id) or ""
  local against = baseline and ", against " .. numbers.iso(baseline.started_unix_ms) or ""
  return ("%s%s, %s, %.1f s%s"):format(what, of, numbers.iso(entry.started_unix_ms), entry.duration_ms / 1000, against)
end

--- Whether a handle's capture has a call tree to export.
function M.can(entry)
  local artifact = entry.artifact
  return type(artifact) == "table" and artifact.profile ~= nil
end

--- The content in a format.
---@param entry table       of a handle for which M.can holds
---@param format string     a name of M.FORMATS
---@param options? { baseline: table?, samples: boolean? }   baseline: the entry to compare with; samples: count samples, not bytes
---@return string? content, table? err
function M.content(entry, format, options)
  options = options or {}
  local how, profile = M.FORMATS[format], entry.artifact.profile
  local err
  if options.baseline then
    profile, err = profile:overlay(options.baseline.artifact.profile)
    if not profile then return nil, err end
  end
  local text
  text, err = profile:export {
    format = how.writer, title = title_of(entry, options.baseline), max_nodes = how.max_nodes,
    by_bytes = profile:info().bytes ~= nil and not options.samples, time_unix_ns = entry.started_unix_ms * 1000000,
    length_ns = math.tointeger(entry.duration_ms * 1000000 // 1), sources = format == "pprof" and entry.artifact.sources or nil,
  }
  if options.baseline then profile:close() end
  if not text then return nil, err end
  if how.page then return M.page(text) end
  return text
end

return M
