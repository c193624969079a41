-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.proc: /proc, cgroups, the kernel. What is unknown is left out of a table; it is never 0. See docs/native-api-proc.md.

---@class lunette.proc
local proc = {}

--- The same functions over files below another folder.
---@param root string
---@return lunette.proc
function proc.at(root) end

---@return integer[]?  # ascending; dropped counts those over 65,536
---@return LunetteErr? err
---@nodiscard
function proc.pids() end

--- A process whose end is wanted.
---@class LunetteProcWatch
local Watch = {}

--- nil while it runs; then how it ended, an empty table when the system did not tell.
---@return { code?: integer, signal?: integer, core?: boolean }?
---@nodiscard
function Watch:ended() end

function Watch:close() end

---@param pid integer
---@return LunetteProcWatch?
---@return LunetteErr? err
---@nodiscard
function proc.watch(pid) end

--- A signal for the process of this id that began at start_time (of stat), and for no other that has its id by now. Whether it was there.
---@param pid integer
---@param start_time integer
---@param name "KILL"|"CONT"
---@return boolean?
---@return LunetteErr? err
---@nodiscard
function proc.signal(pid, start_time, name) end

---@class LunetteProcStat
---@field pid integer
---@field ppid integer
---@field state string
---@field comm string
---@field minor_faults integer
---@field major_faults integer
---@field user_ticks integer
---@field system_ticks integer
---@field threads integer
---@field start_time integer  ticks since boot
---@field vsize_bytes integer
---@field rss_bytes integer

---@param pid integer
---@return LunetteProcStat?
---@return LunetteErr? err
---@nodiscard
function proc.stat(pid) end

---@param pid integer
---@return table?
---@return LunetteErr? err
---@nodiscard
function proc.status(pid) end

--- Waits.
---@param pid integer
---@return string[]? arguments
---@return LunetteErr? err
---@nodiscard
function proc.cmdline(pid) end

--- Waits. As at the process's start: secrets included.
---@param pid integer
---@return string[]? lines  "NAME=VALUE"
---@return LunetteErr? err
---@nodiscard
function proc.environ(pid) end

---@param pid integer
---@param name "exe"|"cwd"|"root"|"ns/pid"|"ns/mnt"|"ns/net"|"ns/user"|"ns/cgroup"
---@return string?
---@return LunetteErr? err
---@nodiscard
function proc.link(pid, name) end

--- Waits.
---@param pid integer
---@return table<string, integer>?
---@return LunetteErr? err
---@nodiscard
function proc.smaps_rollup(pid) end

--- Waits. Bytes of its address space that it may read, and write; the files that it has mapped, each once.
---@param pid integer
---@return { readable_bytes: integer, writable_bytes: integer, files: string[], truncated?: boolean }?
---@return LunetteErr? err
---@nodiscard
function proc.maps(pid) end

---@param pid integer
---@return table<string, integer|"unlimited">?
---@return LunetteErr? err
---@nodiscard
function proc.limits(pid) end

---@param pid integer
---@return table<string, integer>?
---@return LunetteErr? err
---@nodiscard
function proc.io(pid) end

--- Waits.
---@param pid integer
---@return table?
---@return LunetteErr? err
---@nodiscard
function proc.fds(pid) end

--- Waits.
---@param pid integer
---@return table?
---@return LunetteErr? err
---@nodiscard
function proc.cgroup(pid) end

---@class LunetteThreadCpu
---@field tid integer
---@field name? string
---@field start_time integer  ticks since boot
---@field cpu_ns integer
---@field precise boolean     false: it comes in clock ticks

--- Waits. The threads whose name begins with one of the prefixes (nil: all), by tid.
---@param pid integer
---@param prefixes? string|string[]
---@return LunetteThreadCpu[]?  # dropped counts those over 4,096
---@return LunetteErr? err
---@nodiscard
function proc.thread_cpu(pid, prefixes) end

---@class LunetteThreadWait
---@field tid integer
---@field name string
---@field state string      R, S, D, T, t, Z
---@field wchan? string     the function of the kernel that it sleeps in
---@field syscall? integer  that it is in, by this machine's numbers; needs the right to ptrace
---@field args? integer[]   the six of the call

--- Waits. What each thread rests in.
---@param pid integer
---@return LunetteThreadWait[]?  # dropped counts those over 20,000
---@return LunetteErr? err
---@nodiscard
function proc.thread_waits(pid) end

--- CPU time of this process and of the thread that runs Lua.
---@return { process_ns: integer, thread_ns: integer }
---@nodiscard
function proc.own_cpu() end

---@param path? string
---@return table?
---@return LunetteErr? err
---@nodiscard
function proc.host(path) end

---@param pid integer
---@return table?
---@return LunetteErr? err
---@nodiscard
function proc.perf_probe(pid) end

---@param pid integer
---@return true?
---@return LunetteErr? err
---@nodiscard
function proc.can_attach(pid) end

---@return { boot_unix_s?: integer, ticks_per_s: integer, page_bytes: integer, uptime_ms: integer }
function proc.clock() end

return proc
