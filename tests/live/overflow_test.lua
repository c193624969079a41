-- SPDX-License-Identifier: MIT
-- The runtime's buffer overflows, kind by kind: the reader stands still while the target works on, so that the session's buffer (as small
-- as a runtime gives it) fills up and the rest is dropped. Each answer says so, and claims no more than it can.
local during = require("during")
local h = require("harness")
local known = require("known_values")

local RUNTIME <const> = "net10.0"
local SECONDS <const> = 5

--- One window of a collector during which its process is stopped. Returns the payload and what the target did.
local function window(module, target, work)
  local reader <close> = h.start({ "sh", "-c", "echo READY x; exec \"$0\" \"$@\"", h.lunette, "lua",
    h.source .. "/tests/live/small_buffer.lua", module, tostring(target.pid), tostring(SECONDS * h.slowness()) }, "reader")
  h.wait_for("the session", h.START_MS, function()
    if reader.child.exit then error("the reader ended: " .. (h.fs.read(reader.child.err, 100000) or "")) end
    return during.sessions(target) > 0
  end)
  reader:signal("STOP")
  if during.sessions(target) == 0 then h.too_slow() end -- the window was over
  local did = work(target)
  reader:signal("CONT")
  h.ok(reader.child.task:await(2 * h.START_MS), "the reader ends")
  h.eq(0, reader.child.exit.code, "its exit code: " .. (h.fs.read(reader.child.err, 100000) or ""))
  local text = h.fs.read(reader.child.out, 16 * 1024 * 1024)
  local payload = h.ok(h.json.decode(text:match("\n({.*})")), "its payload")
  if payload.cost.eventsLost == 0 and not next(did) then h.too_slow() end -- a load by time that did too little: once more, and longer
  h.ok(payload.cost.eventsLost > 0, "events were lost: " .. h.json.encode(payload.cost))
  h.ok(during.notes(payload):find("EventsLost: the target dropped", 1, true), "the note: " .. during.notes(payload))
  h.no_session(target)
  return payload, did
end

--- A load that goes on until it is told to stop, for some seconds: how much it does depends on the machine.
local function for_ms(ms)
  return function(target)
    target:command("go", "^GOING")
    h.loop.sleep_ms(ms * h.slowness())
    target:command("stop", "^STOPPED")
    return {}
  end
end

local function at_most(did, told, what) h.ok(told > 0 and told < did, ("%s: %d told of %d"):format(what, told, did)) end

-- The least part that must be counted or told lost: what a thread loses behind its last event that came has no number after it that would
-- tell, and that is as much as happens between two turns of the reader.
local TOLD <const> = 0.5

local KINDS <const> = {
  { module = "exceptions", mode = "throw", n = 2000, check = function(e, did)
    local told = e.totalExceptions + e.cost.eventsLost
    h.ok(told <= did.thrown and told >= TOLD * did.thrown, ("%d exceptions of %d were counted or told lost"):format(told, did.thrown))
  end },
  { module = "crash_guard", mode = "throw", n = 2000, check = function(c, did)
    at_most(did.thrown, c.totalExceptions, "exceptions")
    h.eq(c.cost.eventsLost, c.observation.transportLoss, "transportLoss")
  end },
  { module = "gc", mode = "gcs", n = 500, check = function(gc, did)
    at_most(did.gen0, gc.totalCollections, "collections")
    h.ok(h.json.encode(gc.collectionQuality):find("loss", 1, true), "the quality: " .. h.json.encode(gc.collectionQuality))
    h.ok(gc.suspension.measurementStatus ~= "available", "no complete measurement: " .. h.json.encode(gc.suspension))
  end },
  { module = "jit", mode = "jit", n = 6000, check = function(jit, did)
    at_most(did.dynamic, jit.completedCompilations, "compilations")
  end },
  { module = "contention", mode = "contend", n = 1000, work = for_ms(8000), check = function(c)
    h.ok(c.totalEvents > 0, "those that came are counted")
  end },
  { module = "wait_handles", mode = "contend", n = 1000, work = for_ms(8000), check = function(w)
    h.ok(w.waitsInsideContention > 0, "those that came are counted")
  end },
  { module = "threadpool", mode = "starve", n = 100000, work = for_ms(2000), check = function(p)
    h.ok(p.totalEnqueueEvents > 0, "those that came are counted")
    h.eq({ true, false }, { p.quality.transportLoss, p.quality.supportsAbsence }, "quality: " .. h.json.encode(p.quality))
  end },
  { module = "logs", mode = "logs", n = 2000, check = function(l)
    at_most(12 * 2000 + 8, l.totalEvents, "messages from Information on")
    h.ok(l.totalEvents + l.cost.eventsLost >= TOLD * (12 * 2000 + 8), "counted or told lost: " .. h.json.encode(l.cost))
  end },
  { module = "activities", mode = "spans", n = 400, check = function(a, did)
    at_most(did.spans, a.totalActivities, "spans")
    h.ok(a.totalActivities + a.cost.eventsLost >= TOLD * did.spans, "counted or told lost: " .. h.json.encode(a.cost))
    h.eq(a.totalActivities, a.retention.matchingActivities + a.retention.nonMatchingActivities, "all that came are accounted for")
  end },
  { module = "allocations_sampled", mode = "alloc", n = 100000, check = function(a, did)
    h.ok(a.total.samples > 0 and a.total.bytes < did.bytes, "an estimate of what came: " .. h.json.encode(a.total))
  end },
  { module = "samplers.cpu", mode = "stand", n = 1, work = for_ms(5000), check = function(c)
    h.ok(c.totalSamples > 0 and #c.topHotspots > 0, "those that came have names")
    h.eq(c.totalSamples, c.selfSamples.waitingSamples + c.selfSamples.unknownSamples, "the split adds up")
  end },
  { module = "samplers.allocation", mode = "alloc", n = 100000, check = function(a, did)
    h.ok(a.totalEvents > 0 and a.totalBytes < did.bytes, "those that came: " .. a.totalBytes)
  end },
}

local cases = {}
for i, kind in ipairs(KINDS) do
  cases[i] = { kind.module, function(skip)
    local built, why = h.build_target(RUNTIME)
    if not built then skip(why) end
    local target <close> = h.target(RUNTIME, kind.mode, kind.n, { go = false })
    kind.check(window(kind.module, target, kind.work or function(t)
      t:command("go", "^GOING")
      return h.wait_for("the work of " .. kind.mode, 2 * h.START_MS, function()
        return (h.fs.read(t.child.out, 1000000) or ""):find("\nDONE ", 1, true)
      end) and known.did(t)
    end))
  end }
end
return cases
