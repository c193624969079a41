-- SPDX-License-Identifier: MIT
-- collect_events kind=jit over recordings whose contents are known; the figures are those that TraceEvent 4.0.0 gives for the same files.
local recorded = require("support.recorded")

local HANDLE <const> = "jit-snapshot"
local ALL <const> = 1000

local function find(rows, name)
  for _, m in ipairs(rows) do
    if m.methodName == name then return m end
  end
  return nil
end

local function count(rows, prefix)
  local n = 0
  for _, m in ipairs(rows) do
    if m.methodName:sub(1, #prefix) == prefix then n = n + 1 end
  end
  return n
end

describe("collect_events kind=jit, recorded", function()
  it("pairs every start with its load: 143 compilations of 130 methods in 43.34 ms", function()
    local jit = recorded.collect("jit", "jit").data.jit
    assert.same({ 143, 143, 130, 43.34 }, { jit.jitStartCount, jit.completedCompilations, jit.uniqueMethods, jit.jitTimeMs })
    assert.same({ tier0 = 27, tier1 = 116, readyToRun = 0, r2rHit = 0, r2rMissThenJit = 0 }, jit.distribution)
    assert.same({ 112, 2, 4, 0 }, { jit.dynamicMethodCount, jit.osrCount, jit.reJitCount, jit.ilMapCount })
    assert.same({ pauses = 1, backgroundRuns = 2, backgroundCompilations = 2 }, jit.tiering)
    assert.equal("00:00:01.7870000", jit.duration)
  end)

  it("has no hit rate where lookups were not recorded", function()
    assert.is_nil(recorded.collect("jit", "jit").data.jit.r2rHitRatePercent)
  end)

  it("has ten methods at Summary, the longest first, and all behind the handle", function()
    local envelope = recorded.collect("jit", "jit")
    local brief = envelope.data.jit.methods
    assert.same({ 10, "Lunette.Target.Compiling.Do", 17.035, 2 }, {
      #brief, brief[1].displayName, brief[1].inclusiveJitTimeMs, brief[1].compilationCount })
    local all = recorded.view(envelope, HANDLE, "topMethods", { topN = ALL }).methods
    assert.same({ 130, 100 }, { #all, count(all, "LunetteDynamic") })
    for i = 2, #all do assert.is_true(all[i - 1].inclusiveJitTimeMs >= all[i].inclusiveJitTimeMs) end
    assert.equal(10, find(all, "SizeOf").compilationCount)
    local detail = recorded.collect("jit", "jit", { depth = "Detail" }).data.jit.methods
    assert.same(all, detail)
  end)

  it("counts a method through its tiers, and the loop that was replaced", function()
    local payload = recorded.view(recorded.collect("jit", "jit"), HANDLE, "reJIT")
    assert.equal(3, payload.returned)
    local hot, loop, whole = find(payload.methods, "HotMethod"), find(payload.methods, "HotLoop"), find(payload.methods, "Do")
    assert.same({ 3, 2, 1, 2, 0, "OptimizedTier1" }, {
      hot.compilationCount, hot.tier0Count, hot.tier1Count, hot.reJitCount, hot.osrCount, hot.lastOptimizationTier })
    assert.same({ 2, 1, 1, "OptimizedTier1OSR" }, { loop.compilationCount, loop.reJitCount, loop.osrCount, loop.lastOptimizationTier })
    assert.equal(1, whole.osrCount)
  end)

  it("reads lookups and IL maps of .NET 8", function()
    local envelope = recorded.collect("jit", "net8-jit")
    local jit = envelope.data.jit
    assert.same({ 37, 37, 33, 18.557 }, { jit.jitStartCount, jit.completedCompilations, jit.uniqueMethods, jit.jitTimeMs })
    assert.same({ tier0 = 12, tier1 = 25, readyToRun = 0, r2rHit = 496, r2rMissThenJit = 12 }, jit.distribution)
    assert.same({ 508, 97.6, 15, 2, 4 }, {
      jit.r2rLookupCount, jit.r2rHitRatePercent, jit.ilMapCount, jit.osrCount, jit.reJitCount })
    local all = recorded.view(envelope, HANDLE, "topMethods", { topN = ALL }).methods
    assert.same({ true, false }, { find(all, "HotMethod").hasIlMap, find(all, "LunetteDynamic0").hasIlMap })
    assert.equal(97.6, recorded.view(envelope, HANDLE, "tierDistribution").r2rHitRatePercent)
  end)

  it("finds nothing that stands out, and says of a quiet process that it is quiet", function()
    local envelope = recorded.collect("jit", "quiet")
    assert.same({ 19, nil }, { envelope.data.jit.completedCompilations, envelope.signals })
    assert.is_nil(recorded.collect("jit", "jit").signals)
    local none = recorded.collect("jit", "gcs").data.jit
    assert.same({ 0, 0, 0, "quiet: nothing was compiled." }, { none.jitStartCount, #none.methods, none.tier1Percent, none.healthCheck })
    assert.matches("NotInRecording: the recording has no compilation: none came, or it was made without", none.notes[1], 1, true)
  end)
end)
