/** Loaded before the tests of a file that expects an engine that runs (`--import`), in namespaces that have one of their own. */
import { startOwnEngine } from "./isolated-engine.js";

await startOwnEngine();
