#!/usr/bin/env node
/** The entry point of the sources and of the executable. In an installation it is launch.ts. */
import { saveMemory } from "./v8-flags.js";

saveMemory();
await (
  await import("./run.js")
).ended;
