-- SPDX-License-Identifier: MIT
-- thread-snapshot/wait-chains: what each wait ends in.
local answer = require("threads.answer")
local chains = require("threads.chains")
local json = require("lunette.json")
local view = require("lunette.view")

local CHAIN <const> = { __order = { "isCycle", "terminalKind", "length", "hops" } }
local HOP <const> = { __order = { "edgeKind", "waitReason", "target", "ownerThreadId", "waitingThreadId", "note" } }

local function wire_of(chain)
  local hops = json.array({})
  for i, hop in ipairs(chain.hops) do
    hops[i] = setmetatable({
      edgeKind = hop.edge, waitReason = hop.reason, target = hop.target, ownerThreadId = hop.owner, waitingThreadId = hop.waiting,
      note = hop.note,
    }, HOP)
  end
  return setmetatable({ isCycle = chain.is_cycle or false, terminalKind = chain.terminal, length = #hops, hops = hops }, CHAIN)
end

return view {
  kind = "thread-snapshot", name = "wait-chains",
  project = function(artifact, opts)
    local list, rows = chains.of(artifact), json.array({})
    for i = 1, math.min(opts.topN, #list) do rows[i] = wire_of(list[i]) end
    local notes = json.array({})
    if not artifact.pool and not artifact.native then notes[1] = "The pool's state could not be read: starvation is not looked for." end
    if chains.starved(artifact) then
      notes[#notes + 1] = ("The pool is starved: %d work items pending, all %d workers busy, which is the maximum."):format(
        artifact.pool.pending, artifact.pool.current)
    end
    return setmetatable({ chains = rows, totalChains = #list, notes = #notes > 0 and notes or nil },
      { __order = { "chains", "totalChains", "notes" } }), {
      fields = answer.fields(artifact),
      summary = #list == 0 and "No thread waits for another one, or for async work." or ("%d chains of waits; the first ends in %s.")
        :format(#list, list[1].terminal),
    }
  end,
}
