/**
 * Keeps V8's young generation at its first size, 2 MiB. It would grow to 32 MiB during the start and stay so, which is a third
 * of all memory that this program needs; what a call makes is small, and dies with it. To be imported before anything else.
 * The same as a flag of Node.js (`--max-semi-space-size`) would depend on how the program is started.
 */
import { setFlagsFromString } from "node:v8";

setFlagsFromString("--semi-space-growth-factor=1");
