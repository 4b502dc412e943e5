#!/usr/bin/env node
/** The entry point. Sets V8's flags before it loads the program: see v8-flags.ts. */
import "./v8-flags.js";
import { refuseMissingModule } from "./damaged-installation.js";

await import("./run.js").catch(refuseMissingModule);
