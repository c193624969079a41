-- SPDX-License-Identifier: MIT
-- thread-snapshot/frame-vars: the object references in the frames of one managed thread, asked of the process (or dump) once more. Text of
-- strings and the exception's message need both: the argument, and the literal scope or the operator's switch.
local lazy = require("lunette.lazy")
local answer = require("threads.answer")
local errors = require("lunette.errors")
local json = require("lunette.json")
local names = require("threads.names")
local sensitive = require("lunette.sensitive")
local source = lazy("threads.source")
local view = require("lunette.view")
local wire = require("threads.wire")
local worker = lazy("lunette.worker")

local HIDDEN <const> = "Values are hidden: they take includeSensitiveValues=true and the scope sensitive-heap-read, or the setting "
  .. "Diagnostics:AllowSensitiveHeapValues."
local VARIABLE <const> = { __order = { "typeFullName", "address", "location", "isPinned", "isInterior", "preview" } }
local MAX_VARIABLES <const> = 400

local function variable(v)
  return setmetatable({
    typeFullName = v.type or (v.interior and "<interior pointer>" or "<unknown>"), address = v.address, location = v.location,
    isPinned = v.pinned, isInterior = v.interior,
    preview = v.preview and sensitive.shown(v.preview, true, { cut = v.cut }) .. (v.cut and "..." or "") or nil,
  }, VARIABLE)
end

local function frame_of(given)
  local type_name, name = names.split(given.name or "")
  return wire.frame({
    kind = given.managed and "managed" or "runtime", ip = given.ip, sp = given.sp, name = given.name or "<unknown>",
    method = { type = type_name, method = name, token = given.token, module = { path = given.modulePath, mvid = given.mvid } },
  }, false)
end

local function rows_of(facts, warnings)
  local rows, n, left_out = json.array({}), 0, 0
  for i, given in ipairs(facts.frames or {}) do
    local list = json.array({})
    for _, v in ipairs(given.variables) do
      n = n + 1
      if n <= MAX_VARIABLES then list[#list + 1] = variable(v) else left_out = left_out + 1 end
    end
    rows[i] = setmetatable({ frame = frame_of(given), variables = list }, { __order = { "frame", "variables" } })
  end
  if left_out > 0 then warnings[#warnings + 1] = ("Truncated: %d more references are left out."):format(left_out) end
  if facts.refsRead == false then warnings[#warnings + 1] = "The references on this stack could not be read." end
  return rows, n
end

return view {
  kind = "thread-snapshot", name = "frame-vars",
  project = function(artifact, opts, entry, ctx)
    local thread, err = answer.thread(artifact, opts.threadId, entry.id)
    if not thread then return nil, err end
    if artifact.native then return nil, errors.not_supported("A native stack has no managed frames.", {}) end
    local from
    from, err = source.again(artifact)
    if not from then return nil, err end
    local shown = sensitive.unlocked(ctx, opts.includeSensitiveValues) and true or false
    local job, options = worker.target(from)
    job.threadId, job.strings = thread.id, shown
    local facts
    facts, err = worker.json(ctx, "frame-vars", job, options)
    if not facts then return nil, source.explain(artifact, err, thread.id) end
    local warnings = json.array({ opts.includeSensitiveValues and not shown and HIDDEN or nil })
    if from.process then warnings[#warnings + 1] = "The process has run on since the snapshot: frames may differ from it." end
    local rows, n = rows_of(facts, warnings)
    local fields = answer.fields(artifact)
    fields.threadId = thread.id
    return setmetatable({
      threadId = thread.id, currentExceptionType = facts.exceptionType,
      currentExceptionMessage = facts.exceptionMessage and sensitive.shown(facts.exceptionMessage, true) or nil, frames = rows,
      warnings = #warnings > 0 and warnings or nil,
    }, { __order = { "threadId", "currentExceptionType", "currentExceptionMessage", "frames", "warnings" } }), {
      fields = fields, summary = ("Thread %d: %d references in %d frames."):format(thread.id, n, #rows),
    }
  end,
}
