-- SPDX-License-Identifier: MIT
-- The parts that the schemas of rules and hint rules share: an input, a condition, a next step.
local input = require("lunette.rules.input")
local words = require("lunette.rules.words")

local M = {}

local all_stats = table.move(input.METER_STATS, 1, #input.METER_STATS, #input.STATS + 1, { table.unpack(input.STATS) })
local OWNER_NAME <const> = "^[^/]+/."
local OWNER_NAME_NOTE <const> = "must be OWNER/NAME, such as System.Runtime/cpu-usage"

local function copied(fields)
  local out = {}
  for i, f in ipairs(fields) do
    out[i] = {}
    for k, v in pairs(f) do out[i][k] = v end
  end
  return out
end

local INPUT <const> = {
  {
    "counter", "string", pattern = OWNER_NAME, pattern_note = OWNER_NAME_NOTE,
    note = "a counter, as Provider/name; the window asks for its provider",
  },
  { "meter", "string", pattern = OWNER_NAME, pattern_note = OWNER_NAME_NOTE, note = "an instrument, as Meter/name; * for any Meter" },
  { "field", "string", note = "a field of a capture, as a.b.c" },
  { "fired", "string", note = "how many inputs of an observed signal fired: 0 when it was not observed" },
  { "from", "list", note = "inputs that it is made of; with `of` or `as`" },
  { "of", "function", note = "computes it from the values of `from`, or from the capture", signature = "fun(...: any): any" },
  { "as", "string", enum = input.COMBINATIONS, note = "how `from` becomes one number" },
  { "stat", "string", enum = all_stats, note = "which statistic of the window; last when absent" },
  { "handle", "string", note = "the kind of the capture that `field` or `of` reads; counters when absent" },
  { "pick", "string", enum = input.PICKS, note = "which of several series of an instrument; max when absent" },
  { "tags", "map", of = "string", note = "only series with these tags" },
  { "ask", "string", note = "the Meter to ask for when `meter` begins with *" },
  { "among", "list", of = "string", note = "with `fired`: which of its inputs count" },
  { "above_zero", "boolean", note = "zero counts as not measured" },
  { "partial", "boolean", note = "with `from`: computed also while some of it is not measured" },
  { "count", "boolean", note = "with `field`: the length of the list" },
  { "scale", "number", note = "the value is multiplied by it" },
  { "round", "boolean", note = "to a whole number" },
  { "unit", "string", note = "unit of its value" },
}

--- The fields of an input.
function M.input() return copied(INPUT) end

--- A field that holds an input.
function M.input_field(name, more)
  local field = { name, "string|record", fields = M.input }
  for k, v in pairs(more or {}) do field[k] = v end
  return field
end

--- The fields of a condition: what it is compared with, and those of its input when that stands in the same table.
function M.condition()
  local fields = {
    M.input_field("input", { note = "what is compared: the name of a fact, or an input" }),
    { "at_least", "number", note = "holds from here on" }, { "above", "number", note = "holds beyond" },
    { "below", "number", note = "holds beneath" }, { "at_most", "number", note = "holds up to here" },
    { "equals", "any", note = "holds for this value" }, { "is_not", "any", note = "holds for any other value" },
    { "measured", "boolean", note = "holds when there is any value" },
    { "signal", "string", note = "holds when this signal is there" },
    { "absent", "boolean", note = "with `signal`: holds when it is not there" },
    { "any", "list", of = { type = "record", fields = M.condition }, note = "holds when one of these holds" },
    { "name", "string", note = "what its evidence is called" },
    { "rationale", "string", note = "why this number: one sentence" },
    { "unknown", "record", fields = M.condition, note = "judged instead while the input was not measured" },
    { "confidence", "string", enum = { "low", "medium", "high" }, note = "what a hypothesis has at most by this condition" },
  }
  return table.move(M.input(), 1, #INPUT, #fields + 1, fields)
end

--- A field that holds a list of conditions.
function M.conditions_field(name, note, kinds)
  return { name, kinds or "list", of = { type = "record", fields = M.condition }, note = note }
end

--- A field that holds a next step.
function M.step_field(name, note, required)
  return {
    name, "record", note = note, required = required, fields = {
      { "tool", "string", required = true, note = "name of the tool" },
      { "reason", "string", required = true, note = "what that call tells: one sentence" },
      { "arguments", "map", note = "names and values; the process is added" },
      { "priority", "string", enum = { "high", "normal", "low" } },
    },
  }
end

--- A field with a number for each level.
function M.levels_field(name, note) return { name, "map", keys = words.LEVELS, of = "number", note = note } end

return M
