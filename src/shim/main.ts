#!/usr/bin/env node
/**
 * The entry point. V8 is told to be modest before anything else is loaded: to load the modules of the program would already
 * make its young generation grow, and imports that stand side by side are all loaded before the first of them runs.
 */
import "./v8-flags.js";

await import("./run.js");
