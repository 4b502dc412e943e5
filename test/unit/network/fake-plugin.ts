import { join } from "node:path";
import { Flusher } from "../../../src/lib/files/flusher.js";
import type { NetworkSelection } from "../../../src/network/select-plugin.js";
import { startAsChild } from "../../../src/shim/native/start-program.js";
import { recordingLog } from "../../fakes/recording-log.js";
import type { NetworkPlugin } from "../../../src/shim/ports/network-plugin.js";

/** A plugin that succeeds with nothing unless told otherwise. */
export function fakePlugin(changes: Partial<NetworkPlugin> = {}): NetworkPlugin {
  return {
    name: "fake",
    reason: "for a test",
    dockerNetworkMode: "none",
    dockerPublishesPorts: false,
    start: async () => {},
    engineFound: async () => undefined,
    stop: async () => undefined,
    setUpPod: async () => ["10.1.0.2"],
    tearDownPod: async () => {},
    podAddresses: async () => ["10.1.0.2"],
    podCidrChanged: async () => {},
    notReadyReason: () => undefined,
    describe: () => ({}),
    ...changes,
  };
}

/** Values of the flags on a node whose directories are below `at`. */
export function selection(
  at: string,
  name: NetworkSelection["name"],
  changes: Partial<NetworkSelection> = {},
): NetworkSelection {
  return {
    name,
    cniConfDir: join(at, "net.d"),
    cniBinDirs: [join(at, "bin")],
    cniCacheDir: join(at, "cache"),
    podCidrs: { flag: [], remembered: [], remember: () => Promise.resolve() },
    networkPluginMtuBytes: 0,
    hairpinMode: "hairpin-veth",
    nonMasqueradeCidrs: ["10.0.0.0/8"],
    iptablesMode: "auto",
    podsOfCni: false,
    hasPodsOfNoop: () => false,
    start: startAsChild,
    flusher: new Flusher(recordingLog()),
    hostPortOwners: () => Promise.resolve([]),
    knownSandboxes: () => Promise.resolve(undefined),
    ...changes,
  };
}
