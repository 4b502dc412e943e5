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
