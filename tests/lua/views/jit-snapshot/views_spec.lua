-- SPDX-License-Identifier: MIT
-- The views of a jit handle, and the snapshot inline: all methods behind the handle, ten at Summary.
local asked = require("support.asked")
local hints = require("support.hints_kit").for_kind("jit-snapshot")
local json = require("lunette.json")
local snapshot = require("collectors.jit.snapshot")
local window = require("support.jit_window")

-- Forty methods; the fifth was compiled again, the seventh replaced in its loop.
local function forty()
  local rows = {}
  for i = 1, 40 do rows[i] = window.row("m" .. i, 100 - i) end
  rows[5] = window.row("m5", 95, { n = 2, tier1 = 1, rejit = 1, tier = 4 })
  rows[7] = window.row("m7", 93, { n = 2, tier1 = 1, rejit = 1, osr = 1, tier = 5 })
  return window.artifact(rows, { r2r_lookups = 4, r2r_hits = 3 })
end

local function project(name, artifact, opts) return asked.view("jit-snapshot", artifact, name, opts) end

describe("views.jit-snapshot", function()
  it("summary has the totals and the first methods", function()
    local payload = project("summary", forty(), { topN = 3 })
    assert.same({ 42, 42, 40, 3, "m1" }, {
      payload.jitStartCount, payload.completedCompilations, payload.uniqueMethods, #payload.topMethods, payload.topMethods[1].methodName })
    assert.same({ 40, 2, 0, 3, 0 }, {
      payload.distribution.tier0, payload.distribution.tier1, payload.distribution.readyToRun, payload.distribution.r2rHit,
      payload.distribution.r2rMissThenJit })
    assert.same({ 75, 5, 2, 1 }, { payload.r2rHitRatePercent, payload.tier1Percent, payload.reJitCount, payload.osrCount })
  end)

  it("topMethods is by inclusive time, and says how many there are", function()
    local payload = project("topMethods", forty(), { topN = 50 })
    assert.same({ 40, 40 }, { payload.uniqueMethods, payload.returned })
    for i = 2, 40 do assert.is_true(payload.methods[i - 1].inclusiveJitTimeMs >= payload.methods[i].inclusiveJitTimeMs) end
    assert.equal("App.Service.m1", payload.methods[1].displayName)
    assert.equal(2, project("topMethods", forty(), { topN = 2 }).returned)
  end)

  it("tierDistribution leaves out the hit rate when there were no lookups", function()
    assert.equal(75, project("tierDistribution", forty()).r2rHitRatePercent)
    assert.is_nil(project("tierDistribution", window.artifact { window.row("a", 1) }).r2rHitRatePercent)
  end)

  it("reJIT has only methods that were compiled again or replaced", function()
    local payload = project("reJIT", forty(), { topN = 50 })
    assert.same({ 2, 1, 2, "m5", "m7" }, {
      payload.reJitCount, payload.osrCount, payload.returned, payload.methods[1].methodName, payload.methods[2].methodName })
    assert.equal("OptimizedTier1OSR", payload.methods[2].lastOptimizationTier)
    local _, envelope = project("reJIT", forty(), { topN = 1 })
    assert.matches("^1 of 2 methods", envelope.summary)
  end)

  it("the snapshot has 10 methods at Summary and says where the others are; more at Detail", function()
    local brief, detail = snapshot.wire(forty(), "Summary"), snapshot.wire(forty(), "Detail")
    asked.fits(brief, "JitSnapshot")
    asked.fits(detail, "JitSnapshot")
    assert.same({ 10, 40 }, { #brief.methods, #detail.methods })
    assert.matches("10 of 40 methods", brief.notes[#brief.notes])
    assert.same({ brief.completedCompilations, brief.distribution, brief.healthCheck },
      { detail.completedCompilations, detail.distribution, detail.healthCheck })
    assert.is_true(#json.encode(brief) < 16384)
  end)

  it("does not change the artifact", function()
    local artifact = forty()
    local before = #artifact.notes
    snapshot.wire(artifact, "Summary")
    project("summary", artifact, { topN = 3 })
    assert.same({ before, 40 }, { #artifact.notes, #artifact.methods })
  end)

  it("hints at the methods first, at the CPU for a live process only", function()
    local live, recorded = hints.of(forty(), "H", 7), hints.of(window.artifact {}, "H")
    assert.same({ "topMethods", "reJIT", "cpu" }, {
      live[1].suggestedArguments.view, live[2].suggestedArguments.view, live[3].suggestedArguments.kind })
    assert.equal(1, #recorded)
  end)
end)
