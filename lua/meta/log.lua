-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212
-- lunette.log: one line each to stderr.

---@class lunette.log
local log = {}

---@param area string
---@param message string          short and constant; what varies goes into fields
---@param fields? table<string, any>
function log.debug(area, message, fields) end

---@param area string
---@param message string
---@param fields? table<string, any>
function log.info(area, message, fields) end

---@param area string
---@param message string
---@param fields? table<string, any>
function log.notice(area, message, fields) end

---@param area string
---@param message string
---@param fields? table<string, any>
function log.warning(area, message, fields) end

---@param area string
---@param message string
---@param fields? table<string, any>
function log.error(area, message, fields) end

--- The least level that is written.
---@param name "debug"|"info"|"notice"|"warning"|"error"
function log.level(name) end

return log
