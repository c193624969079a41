-- SPDX-License-Identifier: MIT
-- captures: what a watch may take when its threshold is crossed (triggerWhen). The tool that makes such an artifact announces it here, so
-- that the watch knows nothing of samplers, heaps and dumps.
local M = {}

---@class CaptureResult
---@field handle Handle?      of an ordinary kind
---@field dump_path string?   of a dump, instead of a handle

---@class CaptureDeclaration
---@field view string?   the view that a reader of the handle wants first
---@field capture fun(ctx: table, process: TargetProcess, args: table): CaptureResult?, table?

local announced = {} -- captureKind -> CaptureDeclaration

--- Tells that a kind of capture can be taken.
---@param kind "cpu-sample"|"heap"|"thread-snapshot"|"dump"
---@param declared CaptureDeclaration
function M.announce(kind, declared)
  if type(declared.capture) ~= "function" then error("captures.announce: capture must be a function", 2) end
  announced[kind] = declared
end

--- Takes an announcement back.
function M.forget(kind) announced[kind] = nil end

--- How to take a capture, or nil where this build cannot.
---@return CaptureDeclaration?
function M.find(kind) return announced[kind] end

return M
