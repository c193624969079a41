-- SPDX-License-Identifier: MIT
-- off-cpu-snapshot/stack: one stack with all of its frames, by its rank in topStacks.
local errors = require("lunette.errors")
local view = require("lunette.view")
local wire = require("samplers.offcpu_wire")

local ALL <const> = 512 -- frames

return view {
  kind = "off-cpu-snapshot", name = "stack",
  project = function(artifact, opts)
    local rank, n = opts.stackRank, artifact.info.stacks
    if rank < 1 then return nil, errors.invalid("stackRank", ("stackRank counts from 1; got %d."):format(rank)) end
    local row = artifact.result:stacks(rank, 1)[1]
    if not row then
      return nil, errors.new("OutOfRange", ("This capture has %d stacks; got stackRank %d."):format(n, rank),
        { detail = "stackRank", hints = {} })
    end
    return wire.stack(artifact, row, ALL), {
      fields = { totalOffCpuMicros = artifact.info.micros },
      summary = ("Stack %d of %d: %.3f s off the processor in %d spans, state %s, at %s."):format(rank, n, row.micros / 1e6, row.count,
        row.state, wire.leaf(row)),
    }
  end,
}
