/** The entry point of the executable: as launch.ts, the program as one file with V8's code cache, both inside of it. */
import { basename } from "node:path";
import { getRawAsset } from "node:sea";
import { readProgram } from "./cached-program.js";
import { saveMemoryAfterStart } from "./v8-flags.js";

saveMemoryAfterStart();
readProgram("/dockershim", (path) => Buffer.from(getRawAsset(basename(path)) as ArrayBuffer)).run();
