/** `dockershim doctor network`: lists orphaned network resources of dead pods. Changes nothing. */
import type { KnownSandboxes } from "../ports/network-plugin.js";
import { readConfigurationFiles } from "../../network/libcni/configuration-files.js";
import type { NetworkList } from "../../network/libcni/configuration.js";
import { createCniParts } from "../../network/cni/create-cni-plugin.js";
import { HostIptables } from "../../network/iptables/host-iptables.js";
import { OrphanedNetworks } from "../../network/orphans/orphaned-networks.js";
import { withDeadline } from "../../lib/abort.js";
import { Lifetime } from "../../lib/lifetime.js";
import { silentLogger } from "../../lib/log.js";
import { createEngine, engineEndpoint } from "../app/open-engine.js";
import { knownSandboxes } from "../recovery/remove-orphaned-networks.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { ResolvedConfig } from "../config/resolve.js";

const timeoutMs = 60_000;

export interface DoctorNetworkOptions {
  readonly resolved: ResolvedConfig;
  /** Also call CHECK of the plugins for running pods. */
  readonly check: boolean;
}

/** Exit code 0 without orphaned resources and without errors of CHECK, else 1. */
export async function runDoctorNetwork(
  { resolved: { config }, check }: DoctorNetworkOptions,
  { environment, writeOut }: Pick<ProcessIo, "environment" | "writeOut">,
): Promise<number> {
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  try {
    const engine = createEngine(await engineEndpoint(config, environment), config, log, lifetime);
    const iptables = new HostIptables({ mode: config.iptablesMode, log });
    const { cniBinDirs: binDirs, cniCacheDir: cacheDir } = config;
    const parts = createCniParts({ log, binDirs, cacheDir, iptables });
    const orphans = new OrphanedNetworks(parts, () => configuredNetworks(config.cniConfDir));
    const { findings, complaints } = await withDeadline(
      undefined,
      timeoutMs,
      "compare the node with the engine",
      async (signal) => {
        await engine.connect(signal);
        const known = (): Promise<KnownSandboxes> => knownSandboxes(config.stateDir, engine, signal);
        const findings = await orphans.find(known, signal);
        const complaints = check ? await orphans.check((await known()).livingIds, signal) : [];
        return { findings, complaints };
      },
    );
    if (findings.length === 0) {
      writeOut("No orphaned network resources: no cached attachment, address or rule without a container.\n");
    }
    for (const { what, certainlyOurs } of findings) {
      writeOut(
        `${certainlyOurs ? "orphaned, removed at next start" : "of unknown owner, kept         "}  ${what}\n`,
      );
    }
    for (const complaint of complaints) writeOut(`CHECK failed                     ${complaint}\n`);
    if (check && complaints.length === 0) writeOut("CHECK passed for all running pods.\n");
    return findings.length + complaints.length === 0 ? 0 : 1;
  } finally {
    await lifetime.close();
  }
}

/** All valid lists, even if their plugins are missing. */
async function configuredNetworks(directory: string): Promise<readonly NetworkList[]> {
  return (await readConfigurationFiles(directory)).flatMap(({ list }) => list ?? []);
}
