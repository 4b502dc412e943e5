/** `dockershim doctor network`: what dead pods have left of their networks. Looks, and changes nothing. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createCniParts } from "../../network/cni/create-cni-plugin.js";
import { NetworkLeftovers } from "../../network/leftovers.js";
import { withDeadline } from "../base/abort.js";
import { hasCode } from "../base/file-errors.js";
import { Lifetime } from "../base/lifetime.js";
import { silentLogger } from "../base/log.js";
import { createEngine, engineEndpoint, type Environment } from "../composition/engine.js";
import type { ResolvedConfig } from "../config/resolve.js";

const timeoutMs = 60_000;

/** Exit code 0 when nothing is left, 1 when something is. */
export async function runDoctorNetwork(
  { config }: ResolvedConfig,
  environment: Environment,
  writeOut: (text: string) => void,
): Promise<number> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  try {
    const engine = createEngine(await engineEndpoint(config, environment), config, log, lifetime);
    const parts = createCniParts({ log, binDirs: config.cniBinDirs, cacheDir: config.cniCacheDir });
    const findings = await withDeadline(
      undefined,
      timeoutMs,
      "compare the node with the engine",
      async (signal) => {
        await engine.connect(signal);
        return new NetworkLeftovers(parts).find(
          async () => ({
            livingIds: new Set((await engine.listContainers({}, signal)).map(({ id }) => id)),
            ownIds: new Set(await ownIds(config.stateDir)),
          }),
          signal,
        );
      },
    );
    if (findings.length === 0) {
      writeOut("Nothing is left of dead pods: no cached attachment, address or rule without a container.\n");
      return 0;
    }
    for (const { what, certainlyOurs } of findings) {
      writeOut(
        `${certainlyOurs ? "ours, removed at the next start" : "perhaps not ours, left alone   "}  ${what}\n`,
      );
    }
    return 1;
  } finally {
    await lifetime.close();
  }
}

/** Read by their names alone: opening the stores would tidy them up. */
async function ownIds(stateDir: string): Promise<readonly string[]> {
  const names = async (directory: string): Promise<readonly string[]> => {
    try {
      return await readdir(directory);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return [];
      throw error;
    }
  };
  const records = (await names(join(stateDir, "pods"))).map((name) => name.replace(/\.json$/, ""));
  const checkpoints = [
    ...(await names(join(stateDir, "sandbox"))),
    ...(await names("/var/lib/cri-dockerd/sandbox")),
  ];
  return [...records, ...checkpoints].filter((name) => !name.startsWith("."));
}
