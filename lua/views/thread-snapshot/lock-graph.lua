-- SPDX-License-Identifier: MIT
-- thread-snapshot/lock-graph: locks with owners and waiters, the most wanted first.
local answer = require("threads.answer")
local view = require("lunette.view")
local wire = require("threads.wire")

return view {
  kind = "thread-snapshot", name = "lock-graph",
  project = function(artifact, opts)
    local contended = 0
    for _, lock in ipairs(artifact.locks) do contended = contended + (lock.waiters > 0 and 1 or 0) end
    return wire.locks(artifact, opts.topN), {
      fields = answer.fields(artifact),
      summary = ("%d locks are held, %d of them wanted by others. Counts of waiters are the runtime's; who they are is read from stacks. "
        .. "Locks that nobody waits for are shown as far as a stack refers to them."):format(#artifact.locks, contended),
    }
  end,
}
