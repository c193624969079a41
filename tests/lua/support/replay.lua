-- SPDX-License-Identifier: MIT
--- A replayed .NET process for specs: found, asked and traced like a live one, with no .NET installed.
local fs = require("lunette.fs")
local ipc = require("lunette.ipc")
local crypto = require("lunette.crypto")
local loop = require("lunette.loop")

local M = {}
local TRIES <const> = 200 -- of 25 ms, for the process to be there
M.FILE = "tests/data/ipc/counters.nettrace" -- 57 events in 2.3 s, 54 of them EventCounters

--- Starts one in a folder of its own; it ends with the calling task. Returns its pid and the folder of its socket.
---@param ... string options of `lunette replay`
function M.start(...) return M.start_of(M.FILE, ...) end

--- Starts one of a certain recording.
---@param file string
function M.start_of(file, ...)
  local dir = "/tmp/lunette-spec-" .. crypto.hex(crypto.random(6))
  assert(fs.mkdirs(dir))
  local name = "replay-" .. crypto.hex(crypto.random(4))
  local argv = { "/proc/self/exe", "replay", file, "--socket-dir", dir, "--command-line", name, ... }
  local process = loop.spawn(function() return loop.exec{ argv = argv } end)
  loop.on_cleanup(function()
    process:cancel("the spec is over")
    for _, entry in ipairs(fs.list(dir) or {}) do fs.remove(dir .. "/" .. entry) end
    fs.remove(dir)
  end)
  for _ = 1, TRIES do
    for _, endpoint in ipairs(assert(ipc.discover{ tmpdirs = { dir } })) do
      if endpoint.info and endpoint.info.commandLine == name then return endpoint.pid, dir end
    end
    assert(not process:done(), "the replay ended")
    loop.sleep_ms(25)
  end
  error("the replay never appeared")
end

return M
