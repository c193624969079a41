-- SPDX-License-Identifier: MIT
-- collect_sample kind=allocation over a target that allocates known bytes of known types at known sites: half of them strings, a quarter
-- orders, 15 % int[], a tenth large byte[].
local during = require("during")
local h = require("harness")

local MEGABYTES <const> = 400 -- 3,600 ticks: a share of a half is known to about a point
local POINTS <const> = 3
local SECONDS <const> = 4
local KIND <const> = "allocation"
local TYPES <const> = {
  ["System.String"] = "text_bytes", Order = "order_bytes", ["System.Int32[]"] = "number_bytes", ["System.Byte[]"] = "blob_bytes",
}
local RANKS <const> = { "System.String", "Order", "System.Int32[]", "System.Byte[]" } -- 50, 25, 15, 10 %
local SITES <const> = { MakeText = "text_bytes", MakeOrders = "order_bytes", MakeNumbers = "number_bytes", MakeBlob = "blob_bytes" }

local function need(skip, runtime)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
end

local function collect(target, more)
  local given = { kind = KIND, processId = target.pid, durationSeconds = SECONDS }
  for name, value in pairs(more or {}) do given[name] = value end
  return during.both(target, function() return h.call("collect_sample", given) end, during.go)
end

local function data_of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.allocation
end

local function known_bytes(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "sites", MEGABYTES, { go = false })
    local envelope, did = collect(target)
    local data = data_of(envelope)
    h.near(did.bytes, 0.03 * did.bytes, data.totalBytes, "all bytes")
    for name, field in pairs(TYPES) do
      local r = h.ok(h.find(data.topByBytes, { typeName = name }), name)
      h.near(100 * did[field] / did.bytes, POINTS, 100 * r.totalBytes / data.totalBytes, ("share of %s on %s"):format(name, runtime))
      h.eq(name == "System.Byte[]" and "Large" or "Small", r.dominantKind, name)
    end
    for i, name in ipairs(RANKS) do h.eq(name, data.topByBytes[i].typeName, ("rank %d on %s"):format(i, runtime)) end
    local by_site = {}
    for _, r in ipairs(data.topBySite) do
      for site in pairs(SITES) do
        if r.frame.method:find("Sites." .. site .. "(", 1, true) then by_site[site] = r.totalBytes end
      end
      if r.frame.method:find("String.Ctor(", 1, true) then by_site.MakeText = (by_site.MakeText or 0) + r.totalBytes end -- its leaf
    end
    for site, field in pairs(SITES) do
      local share = 100 * (by_site[site] or 0) / data.totalBytes
      h.near(100 * did[field] / did.bytes, POINTS, share, ("share of %s on %s"):format(site, runtime))
    end
    local signal = h.ok(h.find(envelope.signals, { signal = "allocations.by-type" }), "the signal")
    h.eq("System.String", signal.buckets[1].key, "its first")
    h.ok(h.find(data.topBySite, {}).identity.moduleVersionId, "sites can be handed on")
    h.ok(#h.json.encode(envelope) <= 16384, "a short answer")
    h.no_session(target)
  end
end

--- The random samples of .NET 10, when asked for, know the same; an older runtime has none.
local function sampled(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "sites", MEGABYTES, { go = false })
  local envelope, did = collect(target, { sampled = true })
  local data = data_of(envelope)
  h.near(did.bytes, 0.12 * did.bytes, data.totalBytes, "all bytes, of some 4,000 samples")
  for name, field in pairs(TYPES) do
    local r = h.ok(h.find(data.topByBytes, { typeName = name }), name)
    h.near(100 * did[field] / did.bytes, 2 * POINTS, 100 * r.totalBytes / data.totalBytes, "share of " .. name)
  end
  h.ok(during.notes(data):find("Sampled: ", 1, true), "the note: " .. during.notes(data))
  h.no_session(target)
  need(skip, "net8.0")
  local older <close> = h.target("net8.0", "idle")
  local refused = h.call("collect_sample", { kind = KIND, processId = older.pid, durationSeconds = 60, sampled = true })
  h.eq("UnsupportedRuntime", refused.error.kind, h.json.encode(refused.error))
end

local function without_names(skip)
  need(skip, "aot")
  local target <close> = h.target("aot", "sites", MEGABYTES, { go = false })
  local envelope, did = collect(target)
  local data = data_of(envelope)
  h.near(did.bytes, 0.03 * did.bytes, data.totalBytes, "all bytes")
  h.eq({ "<unknown>", 1 }, { data.topByBytes[1].typeName, #data.topByBytes }, "no names")
  h.ok(envelope.summary:find('collect_sample(kind="cpu")', 1, true), "the way on: " .. envelope.summary)
  h.eq(nil, envelope.signals, "nothing without a name is a signal")
end

local function nothing_happens(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "idle")
  h.loop.sleep_ms(1000)
  local envelope = h.call("collect_sample", { kind = KIND, processId = target.pid, durationSeconds = 2 })
  local data = data_of(envelope)
  h.ok(data.totalEvents < 20, "an idle process allocates little: " .. data.totalEvents)
  h.ok(h.json.encode(data.notes):find("NoTicks") or h.json.encode(data.notes):find("FewTicks"), "the note: " .. h.json.encode(data.notes))
  h.eq(nil, envelope.signals, "no signal")
end

local function target_exits(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "sites", MEGABYTES, { go = false })
  local envelope, did = during.both(target, function()
    return h.call("collect_sample", { kind = KIND, processId = target.pid, durationSeconds = 60 })
  end, function()
    local done = during.go(target)
    target:command("quit", "^BYE")
    return done
  end)
  local data = data_of(envelope)
  h.ok(data.totalBytes > 0.5 * did.bytes, "what came before is kept")
  h.ok(during.notes(data):find("ProcessEnded", 1, true), "the note: " .. during.notes(data))
end

return {
  { "known bytes of known types at known sites, net10.0", known_bytes("net10.0") },
  { "known bytes of known types at known sites, net9.0", known_bytes("net9.0") },
  { "known bytes of known types at known sites, net8.0", known_bytes("net8.0") },
  { "random samples when asked for", sampled },
  { "NativeAOT has no names", without_names }, { "nothing happens", nothing_happens }, { "the target exits in the window", target_exits },
}
