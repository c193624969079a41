-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.events: the events of a live session or of a recorded file, the same thing.

---@class lunette.events
local events = {}

---@class LunetteProvider
---@field name string
---@field keywords? integer|string  "0x…"
---@field level? integer            4
---@field args? string

---@class LunetteSourceOptions
---@field pid? integer              a live process, or …
---@field path? string              … a recorded file
---@field providers? LunetteProvider[]
---@field buffer_mb? integer        64
---@field rundown? boolean|integer|string
---@field stacks? boolean
---@field want? { provider: string, event?: string }[]  which events reach Lua; nil: all
---@field tap? LunetteProfileBuilder gets all events, too
---@field program? table            reducers, in the plain form that lunette.probe makes
---@field queue? integer            65536
---@field save_to? string           the raw stream into a new file, 0600
---@field names_for? LunetteSource   its stacks get the names of the methods that this stream tells of
---@field save_max? integer         bytes
---@field timeout_ms? integer       10000

---@class LunetteEvent
---@field provider string
---@field name string
---@field id integer
---@field version integer
---@field level integer    0 LogAlways to 5 Verbose
---@field time_ns integer  since the session's start
---@field unix_ns integer
---@field thread integer
---@field activity? string
---@field related? string
---@field fields table<string, any>
---@field opaque? true     the payload's layout is not known

---@class LunetteSourceSummary
---@field complete boolean
---@field incomplete_reason? string
---@field incomplete_kind? string
---@field events integer
---@field bytes integer
---@field lost integer      by the runtime
---@field lost_by_thread { thread: integer, events: integer }[]   most first, at most 32
---@field dropped integer   by our queue
---@field duration_ns integer
---@field counts { provider: string, event: string, count: integer }[]
---@field pid? integer
---@field pointer_size? integer
---@field start_unix_ns? integer
---@field start_mono_ns? integer   the same moment by the events' clock
---@field processors? integer
---@field collect_version? integer
---@field saved_bytes? integer
---@field save_problem? string

---@class LunetteSource
local Source = {}

--- Waits for 1 to 512 events.
---@param timeout_ms? integer
---@return LunetteEvent[]?
---@return LunetteErr? err  Timeout: none yet; NotFound: the stream ended
---@nodiscard
function Source:next(timeout_ms) end

--- Waits while the stream is drained to its end. What came meanwhile is still to be had by next.
---@param deadline_ms? integer  15000
---@return LunetteSourceSummary?
---@return LunetteErr? err
function Source:stop(deadline_ms) end

--- Waits for what the program's reducers hold: at any time, and the final result once the source has ended.
---@return table?
---@return LunetteErr? err
---@nodiscard
function Source:result() end

--- Whether the early end that the program asks for was met.
---@return boolean
function Source:finished() end

--- When bytes of a live session came last, by the clock of loop.now_ns; nil: none came.
---@return integer?
---@nodiscard
function Source:arrived_ns() end

--- At once; also `<close>`.
function Source:close() end

--- Waits until the session stands, or the file's head is read.
---@param opts LunetteSourceOptions
---@return LunetteSource?
---@return LunetteErr? err
---@nodiscard
function events.open(opts) end

--- An SQL statement without its values and comments, of at most 4,000 bytes; as the function sql() of expressions.
---@param statement string   valid UTF-8
---@return string
---@nodiscard
function events.sql(statement) end

return events
