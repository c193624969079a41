-- SPDX-License-Identifier: MIT
-- thread-snapshot/top-blocked: threads that wait, those that matter most first.
local answer = require("threads.answer")
local locks = require("threads.locks")
local view = require("lunette.view")
local wire = require("threads.wire")

local FRAMES <const> = 8

return view {
  kind = "thread-snapshot", name = "top-blocked",
  project = function(artifact, opts)
    local list, blocked = {}, 0
    for _, thread in ipairs(locks.decisive(artifact)) do
      if thread.blocked then blocked = blocked + 1 end
    end
    for _, wanted in ipairs { true, false } do -- blocked ones before the rest, each in the order of what they tell
      for _, thread in ipairs(locks.decisive(artifact)) do
        if (thread.blocked or false) == wanted then list[#list + 1] = thread end
      end
    end
    return wire.threads(list, opts.topN, FRAMES, false), {
      fields = answer.fields(artifact), summary = ("%d of %d threads are blocked."):format(blocked, #list),
    }
  end,
}
