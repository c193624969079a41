-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.profile: call trees of samples with stacks (docs/design/profile.md).

---@class lunette.profile
---@field RUNDOWN string     keywords of the rundown that names need
---@field RUNDOWN_IL string  the same with the maps from instructions to IL, for source lines
local profile = {}

---@class LunetteProfileOptions
---@field kind? "cpu"|"allocation"  cpu
---@field waits? { name: string, reason: string }[]  leaves that are known to wait; a name that ends in * is a beginning
---@field sampled? boolean     allocations by AllocationSampled (.NET 10)
---@field causality? boolean   keep what artifact:causality() needs
---@field max_bytes? integer

---@class LunetteProfileBuilder
local builder = {}

---@class LunetteProfileCounts
---@field inclusive integer
---@field exclusive integer
---@field running integer   of the exclusive ones, as waiting and unknown
---@field waiting integer
---@field unknown integer
---@field inclusive_bytes? integer  allocations
---@field exclusive_bytes? integer
---@field inclusive_ns? integer     CPU: time of threads
---@field exclusive_ns? integer

---@class LunetteProfileRow: LunetteProfileCounts
---@field frame integer
---@field module string
---@field method string
---@field async boolean
---@field wait_reason? string
---@field node? integer     in a hot path

---@class LunetteProfileNode: LunetteProfileRow
---@field children LunetteProfileNode[]
---@field left_out? integer

---@class LunetteProfileFrame: LunetteProfileRow
---@field kind "managed"|"dynamic"|"native"|"kernel"|"unresolved"|"root"
---@field type? string
---@field name? string
---@field signature? string
---@field token? integer
---@field module_index? integer  of artifact:modules()
---@field namespace string
---@field async_name? string
---@field tier? string
---@field addresses { address: string, samples: integer, method_id?: string, il_offset?: integer, exact: boolean }[]

---@class LunetteProfile
local artifact = {}

--- A builder for one stream: give it to events.open as `tap`.
---@param options LunetteProfileOptions
---@return LunetteProfileBuilder? builder, LunetteErr? err
function profile.new(options) end

--- What a live session has to enable.
--- `loads`: every load of a method with its name, and first uses of precompiled methods, for a session without a rundown; `il`: with IL
--- maps.
---@param options { kind?: "cpu"|"allocation", sampled?: boolean, loads?: boolean, il?: boolean }
---@return LunetteProvider[]
function profile.providers(options) end

---@return { samples: integer, stacks: integer, threads: integer, memory: integer, ended: boolean }
function builder:progress() end

--- No stream will come: the samples that others added are all. Without effect once a stream has taken the builder.
function builder:finish() end

--- Another session's events name the methods of this one: give it to events.open as `tap`.
---@return LunetteProfileBuilder names
function builder:names() end

--- Addresses of the stacks that have no name, once the stream has ended; how many of them are code of precompiled methods that began to be
--- used in the window; how many methods were told and found no room. Waits.
---@return integer? unknown, integer|LunetteErr begun, integer dropped
function builder:unnamed() end

--- The call tree, once, after the end of the stream. Waits.
---@param told? boolean   all names were told, none lost: only then is precompiled code known by where it began to be used
---@return LunetteProfile? artifact, LunetteErr? err
function builder:build(told) end
function builder:close() end

---@return table
function artifact:info() end

---@param n integer
---@return LunetteProfileFrame? frame, LunetteErr? err
function artifact:frame(n) end

---@param options? { first?: integer, count?: integer }
---@return LunetteProfileFrame[]
function artifact:frames(options) end

---@return { name: string, path?: string, pdb_guid?: string, pdb_age?: integer, pdb_path?: string }[]
function artifact:modules() end

---@return LunetteProfileCounts[]  each with `thread`, decimal text
function artifact:threads() end

---@return { type: string, events: integer, bytes: integer, objects?: number, kind: string, kinds: table<string, integer> }[]
function artifact:types() end

---@alias LunetteProfileRank "exclusive"|"inclusive"|"running"|"bytes"|"inclusive_bytes"|"time"|"inclusive_time"

---@param options? { top?: integer, rank_by?: LunetteProfileRank, fold_async?: boolean }
---@return LunetteProfileRow[] rows  with `all`, how many there are
function artifact:top_methods(options) end

---@param options? { top?: integer, rank_by?: string }
---@return LunetteProfileCounts[]  each with `key`
function artifact:by_module(options) end

---@param options? { top?: integer, rank_by?: string }
---@return LunetteProfileCounts[]  each with `key`
function artifact:by_namespace(options) end

---@param options? { threshold?: number }
---@return LunetteProfileRow[]
function artifact:hot_path(options) end

---@param text string
---@param max? integer
---@return LunetteProfileRow[] rows
function artifact:match(text, max) end

---@param options { frame: integer, top?: integer }
---@return { focus: LunetteProfileRow, callers: LunetteProfileRow[], callees: LunetteProfileRow[] }? edges, LunetteErr? err
function artifact:caller_callee(options) end

---@class LunetteProfileTreeOptions
---@field root_frame? integer  all outermost calls of this method
---@field callers? boolean     upside down
---@field max_depth? integer   8
---@field max_nodes? integer   200
---@field by_bytes? boolean    order and room by bytes
---@field by_time? boolean     or by time

---@param options? LunetteProfileTreeOptions
---@return { root: LunetteProfileNode, nodes: integer, truncated: boolean }? tree, LunetteErr? err
function artifact:call_tree(options) end

---@param before LunetteProfile
---@return { module: string, method: string, before?: LunetteProfileCounts, after?: LunetteProfileCounts }[]
function artifact:diff(before) end

--- The whole tree in the format of another program, or the data of a flame graph's page; at most 64 MiB. Waits.
---@param options { format: "speedscope"|"folded"|"pprof"|"flame", title?: string, by_bytes?: boolean, max_nodes?: integer,
---  max_bytes?: integer, time_unix_ns?: integer, length_ns?: integer,
---  sources?: table<integer, { file: string, line?: integer, start_line?: integer }> }  sources: by frame; pprof
---@return string? text, LunetteErr? err
function artifact:export(options) end

--- Columns of nodes `first` to `first + count - 1`, numbered from 0.
---@param first integer
---@param count integer
---@return table<string, integer[]>
function artifact:nodes(first, count) end

--- Both trees in one. Waits.
---@param before LunetteProfile
---@return LunetteProfile? artifact, LunetteErr? err
function artifact:overlay(before) end

--- The tree with the parts of an operation put together across its awaits. Waits.
---@return LunetteProfile? artifact, LunetteErr? err
function artifact:causality() end
function artifact:close() end

return profile
