-- SPDX-License-Identifier: MIT
-- reaper: artifacts do not pile up. At the start, and every few minutes, what is older than MCP_ARTIFACT_TTL_HOURS is removed from below
-- the artifact root. Only names that this server gives are touched, so that a root that was set wrongly loses nothing.
local artifacts = require("lunette.artifacts")
local config = require("lunette.config")
local fs = require("lunette.fs")
local log = require("lunette.log")
local loop = require("lunette.loop")
local store = require("artifacts.store")

local M = {}

M.EVERY_MS = 10 * 60 * 1000
local NS_PER_MS <const>, MS_PER_HOUR <const> = 1000000, 3600 * 1000

local DUMP <const> = "^dump_pid%d+_%a+_%d%d%d%d%d%d%d%dT%d%d%d%d%d%dZ[%w-]*%.dmp"
local OURS <const> = {
  "^%d%d%d%d%d%d%d%dT%d%d%d%d%d%dZ%-%d+%-%w+%.[%w%.]+$", -- traces, exports
  DUMP .. "$", DUMP .. "%.crashreport%.json$", DUMP .. "%.part$", DUMP .. "%.part%.crashreport%.json$",
  "^%.%x+%.part$", "%-Hot%-[%w._-]*%-0x%x%x%x%x%x%x%x%x%.bin$", "%-Cold%-[%w._-]*%-0x%x%x%x%x%x%x%x%x%.bin$", -- method bytes
}

--- Whether the server gave a file its name.
---@param name string   below the root
function M.is_ours(name)
  local file = name:match("([^/]+)$") or ""
  for _, pattern in ipairs(OURS) do
    if file:find(pattern) then return true end
  end
  return false
end

--- Removes what is too old. Waits.
---@return integer removed
function M.sweep()
  local hours, removed, root = config.get("MCP_ARTIFACT_TTL_HOURS"), 0, store.root()
  if hours <= 0 or not fs.stat(root) then return 0 end -- no folder is made for the sake of looking
  local oldest = loop.unix_ms() - hours * MS_PER_HOUR
  local list = artifacts.list(root) or {}
  for i = #list, 1, -1 do -- oldest first
    if list[i].mtime_ns / NS_PER_MS >= oldest then break end
    if M.is_ours(list[i].name) and artifacts.remove(root, list[i].name) then
      removed = removed + 1
      local stage = list[i].name:match("^(.*%.lunette%-%x+)/[^/]+$") -- of a server that was killed
      if stage then fs.remove(root .. "/" .. stage) end
    end
  end
  if removed > 0 then log.info("artifacts", "old files were removed", { root = root, files = removed }) end
  return removed
end

--- Begins to look, now and again and again.
function M.start()
  local function look()
    M.sweep()
    loop.timer(M.EVERY_MS, look)
  end
  loop.timer(0, look)
end

return M
