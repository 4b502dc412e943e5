#!/usr/bin/env node
/** The entry point of the sources. In an installation it is launch.ts, in the executable executable.ts. */
import { saveMemoryAfterStart } from "./v8-flags.js";

saveMemoryAfterStart();
await (
  await import("./run.js")
).ended;
