-- SPDX-License-Identifier: MIT
-- thread-snapshot/stack: the whole stack of one thread, each frame with its identity.
local answer = require("threads.answer")
local view = require("lunette.view")
local wire = require("threads.wire")

local ENDS <const> = {
  cut = " It goes on: take a snapshot with a larger maxFramesPerThread.", broken = " The runtime could not walk beyond the last frame.",
  none = " It has no managed stack.",
}

return view {
  kind = "thread-snapshot", name = "stack",
  project = function(artifact, opts, entry)
    local thread, err = answer.thread(artifact, opts.threadId, entry.id)
    if not thread then return nil, err end
    local fields = answer.fields(artifact)
    fields.threadId = thread.id
    local waits = thread.waits_on[1] and (" It waits for a %s."):format(thread.waits_on[1]) or ""
    return wire.thread(thread, nil, true), {
      fields = fields, summary = ("Thread %d%s: %d frames%s.%s%s"):format(thread.id, thread.name and (" (%s)"):format(thread.name) or "",
        #thread.frames, thread.reason and ", " .. (thread.operation or thread.reason) or "", waits, ENDS[thread.stack_end] or ""),
    }
  end,
}
