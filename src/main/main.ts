#!/usr/bin/env node
/** The entry point of the sources. In an installation it is launch.ts, in the executable executable.ts. */
import { saveMemory } from "./v8-flags.js";

saveMemory();
await (
  await import("./run.js")
).ended;
