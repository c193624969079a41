-- SPDX-License-Identifier: MIT
-- What the contention collector keeps of the events.
local frames = require("collectors.waits.frames")
local probe = require("lunette.probe")

local M = {}

local RUNTIME <const> = probe.RUNTIME

M.MAX_EVENTS = 1000    -- single contentions kept, the longest
M.MAX_FOLLOWED = 10000 -- the last ones, whose owners are followed
M.MAX_SEEN = 10000     -- the last events that tell where owners were
M.MAX_LOCKS = 200      -- rows of each group; the rest is merged
M.MAX_SITES = 500
M.MAX_OWNERS = 500
M.WAIT_SITES = 3       -- of one lock

local FIGURES <const> = { n = probe.count(), total = probe.sum("ns"), max = probe.max("ns") }

local function figures(more)
  local keep = { n = FIGURES.n, total = FIGURES.total, max = FIGURES.max }
  for name, reducer in pairs(more) do keep[name] = reducer end
  return keep
end

local function sites(top, keep)
  return probe.group {
    by = { stack = "start.@stack" }, weight = "ns", top = top, frames = { skip = frames.LOCKS, depth = 1 }, keep = keep,
  }
end

local LOCKS_SEEN <const> = probe.distinct("start.LockID", { where = "start.LockID != 0" })

-- The waits on handles (.NET 9 and later) and the throws (keyword Monitoring brings these alone) are here to tell where owners are.
--- The declaration.
function M.new()
  return probe.program {
    name = "contention",
    providers = { { name = RUNTIME, keywords = { "Contention", "WaitHandle", "Monitoring" }, level = 5 } },
    events = {
      start = RUNTIME .. "/Contention/Start", stop = RUNTIME .. "/Contention/Stop",
      wait = RUNTIME .. "/WaitHandleWait/Start", throw = RUNTIME .. "/Exception/Start",
    },
    let = { ns = "coalesce(DurationNs, @duration)" },
    keep = {
      locks = probe.pair {
        start = "start", stop = "stop", where = "start.ContentionFlags == 0",
        open = {
          at = "@time", thread = "@thread", owner = "LockOwnerThreadID", lock = "LockID", stack = "@stack", flags = "ContentionFlags",
        },
        keep = {
          time = probe.quantiles("ns", { 50, 95 }), total = probe.sum("ns"), monitors = LOCKS_SEEN,
          by_site = sites(M.MAX_SITES, figures { monitors = LOCKS_SEEN, owners = probe.distinct("start.LockOwnerThreadID") }),
          by_owner = probe.group {
            by = { owner = "start.LockOwnerThreadID" }, weight = "ns", top = M.MAX_OWNERS, keep = figures { monitors = LOCKS_SEEN },
          },
          by_lock = probe.group {
            by = { lock = "start.LockID" }, weight = "ns", top = M.MAX_LOCKS,
            keep = figures {
              object = probe.value("start.AssociatedObjectID"), threads = probe.distinct("@thread"),
              sites = sites(M.WAIT_SITES, { n = FIGURES.n, total = FIGURES.total }),
            },
          },
          longest = probe.top(M.MAX_EVENTS, "ns", {
            at = "start.@time", stop = "@time", ns = "ns", thread = "@thread", owner = "start.LockOwnerThreadID", lock = "start.LockID",
            object = "start.AssociatedObjectID", stack = "start.@stack",
          }),
          followed = probe.last(M.MAX_FOLLOWED, {
            at = "start.@time", stop = "@time", thread = "@thread", owner = "start.LockOwnerThreadID", lock = "start.LockID",
            stack = "start.@stack",
          }),
        },
      },
      seen = probe.last(M.MAX_SEEN, { at = "@time", thread = "@thread", stack = "@stack" },
        { on = { "wait", "throw" }, where = 'not within("locks")' }),
    },
  }
end

return M
