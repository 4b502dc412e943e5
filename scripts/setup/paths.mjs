/** Places that the set-up scripts share. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout. */
export const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** What belongs to this checkout only and may be deleted at any time: unpacked packages, logs of failed steps. */
export const cacheDirectory = join(repositoryRoot, ".cache");

/** The record of what was installed and started on this host, and the logs of that; root's. */
export const hostStateDirectory = "/var/lib/dockershim";

/** The built program: what Node.js runs, and the script that runs Node.js with it. */
export const builtMain = join(repositoryRoot, "dist", "launch.cjs");
export const launcher = join(repositoryRoot, "bin", "dockershim");

/** The pod that the first screen offers to run, and the image that it uses. */
export const demoManifest = join(repositoryRoot, "examples", "hello.yaml");
export const demoImage = "dockershim.local/busybox:1";
