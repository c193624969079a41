-- SPDX-License-Identifier: MIT
-- thread-snapshot/lock-graph: locks with owners and waiters, the most wanted first.
local answer = require("threads.answer")
local view = require("lunette.view")
local wire = require("threads.wire")

local function sentence(artifact)
  local n, contended = #artifact.locks, 0
  if artifact.locks_unknown then
    return ("Not known: %s. Of %d locks is known that they are held, from references on stacks."):format(artifact.locks_unknown, n)
  end
  for _, lock in ipairs(artifact.locks) do contended = contended + (lock.waiters > 0 and 1 or 0) end
  return ("%d %s held, %d of them wanted by others. Counts of waiters are the runtime's; who they are is read from stacks. Locks that "
    .. "nobody waits for are shown as far as a stack refers to them."):format(n, n == 1 and "lock is" or "locks are", contended)
end

return view {
  kind = "thread-snapshot", name = "lock-graph",
  project = function(artifact, opts)
    return wire.locks(artifact, opts.topN), {
      fields = answer.fields(artifact),
      summary = sentence(artifact),
    }
  end,
}
