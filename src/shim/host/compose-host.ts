import { type Reach, type ReachJob, tries } from "../../domain/reach.js";
import type { HostAccess, HostFunctions } from "../ports/host.js";

/** Does each job where it is in reach as `local` does, else as `remote` does: decided at each call. */
export function composeHost(reach: () => Reach, local: HostFunctions, remote: HostFunctions): HostAccess {
  const by = (...jobs: readonly ReachJob[]): HostFunctions => (tries(reach(), ...jobs) ? local : remote);
  const onHost = (): HostFunctions => (reach().host ? local : remote);
  return {
    get reach() {
      return reach();
    },
    /** Profiles are read here and sent to the engine as text. */
    readNodeFile: (...given) => local.readNodeFile(...given),
    writeResolvConf: (...given) => by("files").writeResolvConf(...given),
    linkLog: (...given) => by("files").linkLog(...given),
    restoreLogLink: (...given) => by("files").restoreLogLink(...given),
    unlinkLog: (...given) => by("files").unlinkLog(...given),
    deadLogLinks: (...given) => by("files").deadLogLinks(...given),
    writableLayer: (...given) => by("files").writableLayer(...given),
    layerDirectories: (...given) => by("files").layerDirectories(...given),
    imageDirectory: (...given) => by("files").imageDirectory(...given),
    fileSystemUsage: (...given) => by("files").fileSystemUsage(...given),
    killProcessTree: (...given) => by("processes").killProcessTree(...given),
    openFileLimits: (...given) => by("processes").openFileLimits(...given),
    networkNamespace: (...given) => by("networkNamespaces").networkNamespace(...given),
    openNetworkNamespace: (...given) => by("networkNamespaces").openNetworkNamespace(...given),
    applyCgroup: (...given) => by("cgroups").applyCgroup(...given),
    presentCgroup: (...given) => by("cgroups").presentCgroup(...given),
    setScopeProperties: (...given) => by("cgroups").setScopeProperties(...given),
    unitsLoaded: () => by("cgroups").unitsLoaded(),
    cgroupDirectories: (...given) => by("cgroups").cgroupDirectories(...given),
    // A path below the state directory proves nothing of others: Docker Desktop shares some directories only.
    findPaths: (...given) => by("files", "hostPaths").findPaths(...given),
    readCdiSpecs: (...given) => by("files", "hostPaths").readCdiSpecs(...given),
    archiveCheckpoint: (...given) => by("files", "processes", "hostPaths").archiveCheckpoint(...given),
    loadedAppArmorProfiles: (...given) => onHost().loadedAppArmorProfiles(...given),
  };
}
