-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.graph: the objects of a managed heap, what they refer to and what keeps them (docs/heap.md).

---@class lunette.graph
local graph = {}

---@class LunetteGraphOptions
---@field max_objects? integer
---@field max_memory? integer   bytes while it is built

--- A tap for events.open: makes a graph of the events of an induced collection.
---@class LunetteGraphCollector
local Collector = {}

---@return { started: boolean, stopped: boolean, ended: boolean, objects: integer, bytes: integer }   stopped: nothing more will come
---@nodiscard
function Collector:progress() end

---@class LunetteGraphQuality
---@field gc_stopped boolean
---@field gaps integer       events of the collection that are missing: without references then
---@field bad integer        events that could not be read
---@field no_name integer    types whose name never came
---@field other_gcs integer
---@field gc_ns? integer
---@field sizes? { gen0: integer, gen1: integer, gen2: integer, large: integer, pinned: integer, committed?: integer }

--- Waits: once, when the stream has ended.
---@return LunetteGraph?
---@return LunetteGraphQuality|LunetteErr quality_or_err
---@nodiscard
function Collector:build() end

function Collector:close() end

---@class LunetteGraphInfo
---@field objects integer
---@field references integer
---@field types integer
---@field roots integer
---@field bytes integer
---@field dangling integer            references to no object of the graph
---@field missing integer
---@field dangling_roots integer
---@field duplicates integer
---@field dropped_objects integer
---@field dropped_references integer
---@field dropped_roots integer
---@field unnamed_types integer
---@field memory integer
---@field reached? integer            with the rest once it is analysed
---@field reached_bytes? integer
---@field unreached? integer
---@field unreached_bytes? integer

---@class LunetteGraphType
---@field type integer
---@field name string
---@field module? string
---@field module_path? string
---@field token? integer
---@field mvid? string       16 bytes
---@field count integer
---@field bytes integer
---@field retained? integer  once it is analysed

---@class LunetteGraphObject
---@field address integer
---@field size integer
---@field type integer
---@field name string
---@field module? string
---@field retained? integer
---@field objects? integer   it and all that it dominates, where they are told

---@class LunetteGraphWay   its list: the objects from the one that the root refers to, down to the one asked for
---@field kind string
---@field root? string       name of the root: a static field
---@field slot? integer
---@field length integer     of the whole way

---@class LunetteGraph
local Graph = {}

---@return LunetteGraphInfo
---@nodiscard
function Graph:info() end

--- Waits, the first time: the dominator tree, and the shortest ways from roots.
---@return true?
---@return LunetteErr? err
function Graph:analyse() end

---@param options { by?: "bytes"|"instances"|"retained", top?: integer, name?: string, contains?: string }
---@return LunetteGraphType[] rows
---@return integer total
---@nodiscard
function Graph:types(options) end

---@return { kind: string, count: integer, objects: integer, bytes: integer, pinned: integer, interior: integer }[]
---@nodiscard
function Graph:roots() end

---@param address integer
---@return table?   LunetteGraphObject with references, and once it is analysed retained, dominator, distance
---@nodiscard
function Graph:object(address) end

--- All types that one of two graphs has, by name and module.
---@param before LunetteGraph
---@return table<string, { name: string, module?: string, count?: integer, bytes?: integer, count_before?: integer,
---   bytes_before?: integer }>
---@nodiscard
function Graph:diff(before) end

--- Waits: objects by retained size. under: those that this one dominates directly; roots: that only the roots together do.
---@param options { top?: integer, type?: integer, under?: integer, roots?: boolean }
---@return LunetteGraphObject[]? rows
---@return integer|LunetteErr total_or_err
---@return integer bytes
---@nodiscard
function Graph:top(options) end

--- Waits: the shortest way from a root to the most telling object of each type, or to one object. Longer ones than depth keep their
--- first object and the last ones. nil alone: no object has the address.
---@param options { types?: integer[], address?: integer, depth?: integer }
---@return LunetteGraphWay[]?
---@return LunetteErr? err
---@nodiscard
function Graph:ways(options) end

--- Waits: all that can be reached from an object, up to max objects.
---@param address integer
---@param max integer
---@return { bytes: integer, objects: integer, truncated: boolean }?
---@return LunetteErr? err
---@nodiscard
function Graph:reach(address, max) end

--- Waits: what would go with all objects of a type together: exact, where the retained size of types is a lower bound.
---@param type integer   of a row of types()
---@return { bytes: integer, objects: integer, truncated: boolean }?
---@return LunetteErr? err
---@nodiscard
function Graph:together(type) end

--- Waits: the dominator tree from the roots down, objects of one type below one row put together; parent is a row's number. What is
--- smaller than 1/least of all is one row without a name.
---@param options { depth?: integer, least?: integer }
---@return { parent: integer, name?: string, count: integer, retained: integer, own: integer, address?: integer }[]?
---@return LunetteErr? err
---@nodiscard
function Graph:tiles(options) end

function Graph:close() end

---@param options? LunetteGraphOptions
---@return LunetteGraphCollector?
---@return LunetteErr? err
---@nodiscard
function graph.collector(options) end

--- Waits: a .gcdump file.
---@param path string
---@return LunetteGraph?
---@return table|LunetteErr info_or_err
---@nodiscard
function graph.read_gcdump(path) end

--- Waits: what a worker process wrote.
---@param fd integer   stays the caller's
---@return LunetteGraph?
---@return LunetteErr? err
---@nodiscard
function graph.open(fd) end

return graph
