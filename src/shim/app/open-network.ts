/** The network plugin, with the data of the program that it needs. */
import { arch } from "node:process";
import { join } from "node:path";
import type { NetworkCleanUp, NetworkPlugin } from "../ports/network-plugin.js";
import { ProgramsProcess } from "../native/helper-process.js";
import { startAsChild, type StartProgram } from "../native/start-program.js";
import { selectNetworkPlugin } from "../../network/select-plugin.js";
import { withDeadline } from "../../lib/abort.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Config } from "../config/resolve.js";
import type { Engine } from "../ports/engine.js";
import type { Observer } from "../ports/observer.js";
import { hasNetworkOf, hostPortOwners } from "../recovery/network-owners.js";
import { sandboxesOfKnownEngine } from "../recovery/remove-orphaned-networks.js";
import { PodCidrFile } from "../state/pod-cidr-file.js";
import type { Stores } from "./open-stores.js";
import { readOnlyNetwork } from "./read-only.js";
import { imageArchitecture, programPath } from "../native/programs.js";

export interface OpenNetwork {
  readonly network: NetworkPlugin;
  /** Undefined with no-op, which leaves no resources. */
  readonly orphanedNetworks: NetworkCleanUp | undefined;
}

const startTimeoutMs = 60_000;

/** Chooses the plugin once, and starts it. */
export async function openNetwork(
  config: Config,
  { records, flusher }: Pick<Stores, "records" | "flusher">,
  engine: Engine,
  log: Logger,
  lifetime: Lifetime,
  observer?: Observer,
): Promise<OpenNetwork> {
  return withDeadline(undefined, startTimeoutMs, "start the network plugin", async (signal) => {
    const { stateDir } = config;
    const cidrFile = new PodCidrFile(join(stateDir, "pod-cidrs.json"), log);
    const { plugin, orphans } = await selectNetworkPlugin(
      {
        name: config.networkPlugin,
        cniConfDir: config.cniConfDir,
        cniBinDirs: config.cniBinDirs,
        cniCacheDir: config.cniCacheDir,
        podCidrs: {
          flag: config.podCidrs,
          remembered: await cidrFile.read(),
          remember: (cidrs) => cidrFile.write(cidrs),
        },
        networkPluginMtuBytes: config.networkPluginMtuBytes,
        hairpinMode: config.hairpinMode,
        nonMasqueradeCidr: config.nonMasqueradeCidr,
        iptablesMode: config.iptablesMode,
        start: programStarter(log, lifetime),
        flusher,
        observer,
        podsOfCni: hasNetworkOf("cni", records),
        hostPortOwners: (own) => hostPortOwners(records, engine, own),
        knownSandboxes: (own) => sandboxesOfKnownEngine(stateDir, engine, own),
      },
      log,
    );
    // Its start would make directories and end orphaned plugins.
    if (config.readOnly) return { network: readOnlyNetwork(plugin), orphanedNetworks: undefined };
    lifetime.onClose("network plugin", () => plugin.stop());
    await plugin.start(signal);
    return { network: plugin, orphanedNetworks: orphans };
  });
}

/** By a helper process that starts at the first use, on machines that it is built for. */
function programStarter(log: Logger, lifetime: Lifetime): StartProgram {
  if (imageArchitecture(arch) === undefined) return startAsChild;
  const helper = new ProgramsProcess({ program: programPath("run-programs", arch), log });
  lifetime.onClose("helper that starts programs", () => helper.close());
  return (...given) => helper.start(...given);
}
