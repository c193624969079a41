-- SPDX-License-Identifier: MIT
-- thread-snapshot/unique-stacks: threads that stand at the same place as one row, the largest crowd first.
local answer = require("threads.answer")
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local json = require("lunette.json")
local view = require("lunette.view")
local wire = require("threads.wire")

local SAMPLES <const> = 5
local ROW <const> = { __order = {
  "signatureHash", "threadCount", "threadPercentage", "sampleThreads", "canonicalFrames", "inferredWaitReason",
} }

local function hex(bytes) return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

local function signature(thread, frames)
  local names = {}
  for i = 1, math.min(frames, #thread.frames) do names[i] = thread.frames[i].name end
  return table.concat(names, "\n")
end

local function grouped(artifact, frames)
  local by_signature, list, all = {}, {}, 0
  for _, thread in ipairs(artifact.threads) do
    if #thread.frames > 0 then
      all = all + 1
      local key = signature(thread, frames)
      local group = by_signature[key]
      if not group then
        group = { key = key, threads = {} }
        by_signature[key], list[#list + 1] = group, group
      end
      table.insert(group.threads, thread)
    end
  end
  for _, group in ipairs(list) do group.hash = hex(crypto.sha256(group.key)) end
  table.sort(list, function(a, b)
    if #a.threads ~= #b.threads then return #a.threads > #b.threads end
    return a.hash < b.hash
  end)
  return list, all
end

local function row(group, all, frames)
  local first, samples, shown = group.threads[1], json.array({}), json.array({})
  for i = 1, math.min(SAMPLES, #group.threads) do
    samples[i] = { managedThreadId = group.threads[i].id, osThreadId = group.threads[i].os_id }
  end
  for i = 1, math.min(frames, #first.frames) do shown[i] = wire.frame(first.frames[i], false, first.sps[i]) end
  return setmetatable({
    signatureHash = group.hash, threadCount = #group.threads, threadPercentage = #group.threads / all, sampleThreads = samples,
    canonicalFrames = shown, inferredWaitReason = first.reason,
  }, ROW)
end

return view {
  kind = "thread-snapshot", name = "unique-stacks",
  project = function(artifact, opts)
    local frames, least = opts.framesToHash or 20, opts.minCount or 1
    if frames < 1 then return nil, errors.invalid("framesToHash", "framesToHash must be at least 1.") end
    if least < 1 then return nil, errors.invalid("minCount", "minCount must be at least 1.") end
    local groups, all = grouped(artifact, frames)
    local rows, matching = json.array({}), 0
    for _, group in ipairs(groups) do
      if #group.threads >= least then
        matching = matching + 1
        if #rows < opts.topN then rows[#rows + 1] = row(group, all, frames) end
      end
    end
    return rows, {
      fields = answer.fields(artifact),
      summary = ("%d threads stand at %d places; the largest crowd has %d."):format(all, #groups, groups[1] and #groups[1].threads or 0),
    }
  end,
}
