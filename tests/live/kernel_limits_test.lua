-- SPDX-License-Identifier: MIT
-- The kernel's samplers where something is missing: names of the kernel, tracing files, privilege, a namespace's own root.
local h = require("harness")
local k = require("kernel")

-- ---- without names of the kernel: system calls are traced ------------------------------------------------------------------------------

local NO_SYSLOG <const> = { "setpriv", "--bounding-set=-syslog" }

local function runs(argv)
  local done = h.loop.exec { argv = argv, timeout_ms = 10000 }
  return done and done.code == 0 and done or nil
end

-- What the kernel's own rule makes of it: names are hidden from whoever has no CAP_SYSLOG.
local function names_are_hidden(skip)
  local argv = { table.unpack(NO_SYSLOG) }
  table.move({ "head", "-n", "1", "/proc/kallsyms" }, 1, 4, #argv + 1, argv)
  local done = runs(argv)
  if not done then skip("capabilities cannot be dropped here") end
  if not done.stdout:find("^0+ ") then skip("the kernel shows its names to everybody") end
end

local function hidden_names(runtime)
  return function(skip)
    k.need(skip, runtime, "sched_switch")
    names_are_hidden(skip)
    local server <close> = h.server { wrapper = NO_SYSLOG }
    local target <close> = k.start(runtime, "waits", 10)
    local envelope, did = k.during(server, target, { kind = "off_cpu", durationSeconds = 4, topN = 100 })
    k.check_waits(server, envelope, did, 10, runtime, true)
  end
end

return {
  { "system calls by their trace, net10.0 and net9.0", k.at_once({ "net10.0", "net9.0" }, hidden_names) },
  { "system calls by their trace, net8.0 and aot", k.at_once({ "net8.0", "aot" }, hidden_names) },
}
