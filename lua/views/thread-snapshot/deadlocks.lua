-- SPDX-License-Identifier: MIT
-- thread-snapshot/deadlocks: threads that wait for each other's locks in a circle. Candidates: each link says what it rests on.
local answer = require("threads.answer")
local json = require("lunette.json")
local locks = require("threads.locks")
local view = require("lunette.view")

local MEMBER <const> = { __order = { "threadId", "osThreadId", "state", "topFrameMethod", "inferredWaitReason" } }
local LINK <const> = { __order = {
  "waitingThreadId", "ownerThreadId", "lockObjectAddress", "lockObjectTypeFullName", "lockKind", "source", "confidence",
} }

local function member(thread)
  return setmetatable({
    threadId = thread.id, osThreadId = thread.os_id, state = thread.state, topFrameMethod = thread.frames[1] and thread.frames[1].name,
    inferredWaitReason = thread.reason,
  }, MEMBER)
end

local function link(thread)
  local wants = thread.wants
  return setmetatable({
    waitingThreadId = thread.id, ownerThreadId = wants.lock.owner_id, lockObjectAddress = wants.lock.object,
    lockObjectTypeFullName = wants.lock.type, lockKind = wants.lock.kind, source = wants.source, confidence = wants.confidence,
  }, LINK)
end

local function commands(entry, cycle)
  local list = json.array({})
  for i, thread in ipairs(cycle) do
    list[i] = {
      command = ('query_snapshot(handle="%s", view="stack", threadId=%d)'):format(entry.id, thread.id),
      purpose = ("See where thread %d holds its lock and where it waits."):format(thread.id),
    }
  end
  return list
end

local function sentence(artifact, n)
  if artifact.locks_unknown then return ("Not known: %s."):format(artifact.locks_unknown) end
  local found = n == 0 and "No circle of threads that wait for each other's locks. Waits that are no locks (tasks, semaphores) are "
    .. "in wait-chains." or ("%d circle%s of threads that wait for each other's locks."):format(n, n == 1 and "" or "s")
  local joins = locks.joins(artifact)
  return joins and found .. " " .. joins or found
end

return view {
  kind = "thread-snapshot", name = "deadlocks",
  project = function(artifact, opts, entry)
    local rows, cycles = json.array({}), locks.cycles(artifact)
    for i = 1, math.min(opts.topN, #cycles) do
      local members, links = json.array({}), json.array({})
      for k, thread in ipairs(cycles[i]) do members[k], links[k] = member(thread), link(thread) end
      rows[i] = setmetatable({ cycleMembers = members, lockChain = links, recommendedCommands = commands(entry, cycles[i]) },
        { __order = { "cycleMembers", "lockChain", "recommendedCommands" } })
    end
    return rows, {
      fields = answer.fields(artifact),
      summary = sentence(artifact, #cycles),
    }
  end,
}
