-- SPDX-License-Identifier: MIT
-- db.n-plus-one: the same command, many times under one parent. A grouping, never a diagnosis: a loop may be meant.
local signal = require("lunette.signal")

return signal {
  id = "db.n-plus-one", handle = "db-snapshot", order = 10,
  limits = { full_at = 100 }, -- repetitions under one parent at which it could not stand out more
  of = function(artifact, self)
    local worst = artifact.incidents[1]
    if not worst then return nil end
    local buckets, all = {}, 0
    for i, s in ipairs(artifact.incidents) do
      buckets[i], all = { key = s.command.sql, magnitude = s.n, unit = "commands" }, all + s.n
    end
    return {
      summary = ("%d of %d commands repeat another one more than %d times under its parent; most often (%d times) %s: %s."):format(all,
        artifact.total, artifact.more_than, worst.n, worst.scope == "global" and "without any parent" or "under " .. worst.scope,
        worst.command.sql:sub(1, 120)),
      salience = worst.n / self.limits.full_at, buckets = buckets,
    }
  end,
  next = { view = "n+1", reason = "See which commands repeat, and under which parent.", arguments = { topN = 25 } },
}
