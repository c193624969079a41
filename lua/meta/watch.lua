-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.watch: tells that something changed in some folders. What changed is not told: look again.

---@class lunette.watch
local watch = {}

---@class LunetteWatch
local Watch = {}

--- Watches a folder, not what is below it. The same folder has the same id, whatever its path.
---@param folder string
---@param name? string  only what happens to this name in it counts
---@return integer? id
---@return LunetteErr? err  NotFound, PermissionDenied, LimitExceeded
function Watch:add(folder, name) end

--- Lets go of all folders whose id is not a key of the table.
---@param ids table<integer, any>
function Watch:keep(ids) end

--- Waits until something has happened since the last call. One task at a time.
---@param timeout_ms? integer
---@return { events: integer, writing: integer, overflow: boolean }? changes  writing: files that were changed and not closed yet
---@return LunetteErr? err  Timeout, Cancelled
function Watch:next(timeout_ms) end

--- Also `<close>`.
function Watch:close() end

---@return LunetteWatch?
---@return LunetteErr? err
---@nodiscard
function watch.new() end

return watch
