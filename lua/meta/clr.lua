-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.clr: what is known of the .NET runtime's own formats.

---@class lunette.clr
local clr = {}

--- The path in an activity id that EventSource made: "//1/5/300/", one number for each activity that the last one is inside of; a path
--- that was too long for the id ends in "$NUMBER/". nil for any other id.
---@param guid string   as events have it: "0000101c-0000-0000-0000-000019c59d59"
---@return string? path
---@return integer? process_id   as that process sees itself; 0 when the runtime does not write it
function clr.activity_path(guid) end

return clr
