-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.loop: time, tasks, channels, timers, child processes. "waits": the task is suspended, others run.

---@class lunette.loop
local loop = {}

---@class LunetteTask
---@field data table  the task's own; a spawned task's inherits from its parent's
local Task = {}

--- Waits for the end of the task.
---@param timeout_ms? integer
---@return any ...  what its function returned; or nil, err when it failed
function Task:await(timeout_ms) end

--- Its waits return nil, err (Cancelled); what goes on regardless is stopped by an error.
---@param reason? string
function Task:cancel(reason) end

---@return boolean
function Task:done() end

---@class LunetteTaskUsage
---@field cpu_ms number            time in Lua
---@field allocated_bytes integer  all that it ever allocated in Lua
---@field preempted integer        how often its slice ran out

---@return LunetteTaskUsage
function Task:usage() end

---@class LunetteChannel
local Channel = {}

---@param value any  not nil
---@return boolean   # false: full, or closed
function Channel:send(value) end

--- Waits for a value.
---@param timeout_ms? integer
---@return any value
---@return LunetteErr? err  Timeout, Cancelled, or NotFound when it is closed and empty
function Channel:recv(timeout_ms) end

--- What is queued can still be received.
function Channel:close() end

---@class LunetteTimer
local Timer = {}

--- It does not fire any more.
function Timer:cancel() end

---@return integer  # monotonic milliseconds
function loop.now_ms() end

---@return integer  # monotonic nanoseconds
function loop.now_ns() end

---@return integer  # milliseconds since 1970
function loop.unix_ms() end

---@return integer  # CPU milliseconds of this process
function loop.cpu_ms() end

--- Waits.
---@param ms number
---@return true? slept
---@return LunetteErr? err  Cancelled
function loop.sleep_ms(ms) end

---@param fn function
---@param ... any  its arguments
---@return LunetteTask
function loop.spawn(fn, ...) end

---@return LunetteTask?  # nil outside a task
function loop.current() end

--- Runs fn when the current task ends, however it ends; the last registered first. It may wait, within a limit.
---@param fn fun()
function loop.on_cleanup(fn) end

---@return boolean  # the current task was asked to stop
function loop.cancelled() end

--- CPU that the current task may use in Lua from now on.
---@param ms integer  negative: no limit
function loop.set_budget(ms) end

---@return { tasks: integer, memory_bytes: integer }
function loop.stats() end

---@param capacity integer  0: a value passes only to one who waits
---@return LunetteChannel
function loop.channel(capacity) end

--- Runs fn as a task of its own after ms.
---@param ms number
---@param fn fun()
---@return LunetteTimer
function loop.timer(ms, fn) end

---@class LunetteExec
---@field argv string[]         without a slash, argv[1] is looked for in PATH
---@field stdin? string
---@field timeout_ms? integer   then it is killed
---@field max_output? integer   bytes kept of stdout and of stderr each; 1 MiB

---@class LunetteExecResult
---@field code? integer           exit code
---@field signal? integer         the signal that ended it
---@field stdout string
---@field stderr string
---@field dropped_bytes? integer  over max_output
---@field timed_out? true

--- Runs a program and waits for its end. It is killed when the task is cancelled.
---@param what LunetteExec
---@return LunetteExecResult?
---@return LunetteErr? err
---@nodiscard
function loop.exec(what) end

--- Ends the process, after the cleanup of every task. Does not return.
---@param code? integer
function loop.exit(code) end

---@class LunetteChildOptions
---@field argv string[]       without a slash, argv[1] is looked for in PATH
---@field env? table<string, string|false>  changes of our environment; false leaves a variable out
---@field cwd? string         where it starts; a relative argv[1] with a slash is looked for there
---@field stdin? "null"|"inherit"
---@field stdout? "null"|"inherit"|"lines"
---@field stderr? "null"|"inherit"|"lines"
---@field group? boolean      it leads a process group: kill reaches all of it, and what is left of it ends with it
---@field dies_with_us? boolean  SIGKILL when this process ends, even if that was killed itself

---@class LunetteChild
---@field pid integer
local Child = {}

--- Waits for the next line of a stream that is "lines". NotFound: the output has ended.
---@param timeout_ms? integer
---@return { text: string, stream: "stdout"|"stderr", cut?: true }?
---@return LunetteErr? err
---@nodiscard
function Child:line(timeout_ms) end

--- Waits for its end.
---@param timeout_ms? integer
---@return { code?: integer, signal?: integer }?
---@return LunetteErr? err
---@nodiscard
function Child:wait(timeout_ms) end

---@param name? "TERM"|"KILL"|"INT"|"HUP"|"QUIT"
function Child:kill(name) end

---@return integer  lines that came while 1,024 waited to be taken
---@nodiscard
function Child:dropped() end

--- Kills it if it still runs, and lets it go. Also `<close>`.
function Child:close() end

--- Starts a program that runs beside the task. Does not wait.
---@param options LunetteChildOptions
---@return LunetteChild?
---@return LunetteErr? err
---@nodiscard
function loop.child(options) end

--- Runs fn as a task whenever the signal comes. by_terminal: a key of the terminal sent it, and to the whole foreground group. INT and
--- TERM, which end the process in good order, do so no more once they are taken.
---@param name "HUP"|"INT"|"QUIT"|"TERM"|"USR1"|"USR2"|"WINCH"
---@param fn fun(by_terminal: boolean)
---@return true?
---@return LunetteErr? err
function loop.on_signal(name, fn) end

return loop
