/** `dockershim doctor bundle`: state, settings, logs and versions of this node in one file, without secrets. */
import { hostname } from "node:os";
import type { ProcessIo } from "../../cli/process-io.js";
import { collect } from "../bundle/collect.js";
import { writeBundle } from "../bundle/write-bundle.js";
import { gatherFacts } from "../gather/gather-facts.js";
import type { GivenSettings } from "../gather/read-settings.js";

export interface BundleOptions extends GivenSettings {
  /** Undefined: a name with the host and the time, in the working directory. */
  readonly output: string | undefined;
  readonly logFile: string | undefined;
}

export async function runDoctorBundle(
  { output, logFile, ...given }: BundleOptions,
  io: Pick<ProcessIo, "environment" | "readFile" | "isSocket" | "version" | "commit" | "writeOut">,
): Promise<number> {
  const gathered = await gatherFacts({ ...given, parts: [], check: false }, io);
  const at = new Date(gathered.facts.atMs);
  const stamp = at.toISOString().replaceAll(/[-:]|\..*$/g, "");
  const path = output ?? `dockershim-bundle-${hostname()}-${stamp}.tar.gz`;
  const entries = await collect(gathered, { logFile }, io);
  await writeBundle(path, entries, at);
  io.writeOut(
    `${path}: ${entries.length} files. What looks like a secret is removed; names of pods, images and addresses are not.\n`,
  );
  return 0;
}
