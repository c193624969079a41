-- SPDX-License-Identifier: MIT
-- rule { … }: what a triage observes of a window, when it stands out, and what it may mean (docs/triage.md).
return require("lunette.declare").constructor("rule")
