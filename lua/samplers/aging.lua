-- SPDX-License-Identifier: MIT
-- Files that captures leave below the artifact root do not pile up: whenever one is written, those of its folder that are older than
-- MCP_ARTIFACT_TTL_HOURS are removed. Only names that this server gives are touched, never a recording that somebody put there.
local config = require("lunette.config")
local fs = require("lunette.fs")
local log = require("lunette.log")
local loop = require("lunette.loop")

local M = {}

local OURS <const> = "^%d%d%d%d%d%d%d%dT%d%d%d%d%d%dZ%-%d+%-%w+%."
local NS_PER_MS <const>, MS_PER_HOUR <const> = 1000000, 3600 * 1000

--- Removes what is too old.
---@param folder string   a path
---@return integer removed
function M.prune(folder)
  local hours, removed = config.get("MCP_ARTIFACT_TTL_HOURS"), 0
  if hours <= 0 then return 0 end
  local oldest = loop.unix_ms() - hours * MS_PER_HOUR
  for _, name in ipairs(fs.list(folder) or {}) do
    local path = folder .. "/" .. name
    local stat = name:find(OURS) and fs.stat(path)
    if stat and stat.kind == "file" and stat.mtime_ns / NS_PER_MS < oldest and fs.remove(path) then removed = removed + 1 end
  end
  if removed > 0 then log.info("artifacts", "old files were removed", { folder = folder, files = removed }) end
  return removed
end

return M
