-- SPDX-License-Identifier: MIT
-- gcdump.lua PID: a heap snapshot by events up to retained sizes, by phase, in milliseconds.
local events = require("lunette.events")
local graph = require("lunette.graph")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"

local function ms(from, to) return (to - from) / 1e6 end

local collector = assert(graph.collector {})
local began = loop.now_ns()
local source = assert(events.open {
  pid = tonumber(arg[1]), tap = collector, buffer_mb = 4095, rundown = "0x8", timeout_ms = 120000,
  providers = { { name = RUNTIME, keywords = "0x1980001", level = 5 } }, want = { { provider = RUNTIME, event = "GC/Stop" } },
})
local opened = loop.now_ns()
repeat
  local batch, err = source:next(60000)
  assert(batch or collector:progress().stopped, err)
until collector:progress().stopped
local told = loop.now_ns()
local summary = assert(source:stop(15000))
local drained = loop.now_ns()
local made, quality = collector:build()
assert(made, quality)
local built = loop.now_ns()
assert(made:analyse())
local done = loop.now_ns()
local info = made:info()
sys.write(("%d objects, %d references, %d bytes, %d lost events, %d gaps; the collection took %.0f ms in the target\n"):format(info.objects,
  info.references, info.bytes, summary.lost, quality.gaps, (quality.gc_ns or 0) / 1e6))
sys.write(("session %.0f ms, objects %.0f ms, end %.0f ms, graph %.0f ms, retained sizes %.0f ms; memory %.0f MB\n"):format(
  ms(began, opened), ms(opened, told), ms(told, drained), ms(drained, built), ms(built, done), info.memory / 1e6))
sys.write(("total_ms=%.0f\n"):format(ms(began, done)))
