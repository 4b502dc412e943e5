import { parseNetworkList } from "../../../../src/network/libcni/configuration.js";
import type { NetworkSource, NetworkState } from "../../../../src/network/cni/network-source.js";

/** A source that says what the test wants. */
export class FixedSource implements NetworkSource {
  now: NetworkState = { problem: "no networks found in /conf" };
  last: ReturnType<NetworkSource["lastGood"]>;
  stopped = false;

  use(members: object, ...plugins: readonly object[]): void {
    const text = JSON.stringify({ name: "net", cniVersion: "0.4.0", plugins, ...members });
    const network = parseNetworkList(text, "test");
    this.now = { network };
    this.last = network;
  }
  async start(): Promise<void> {}
  async stop(): Promise<void> {
    this.stopped = true;
  }
  state(): NetworkState {
    return this.now;
  }
  lastGood(): ReturnType<NetworkSource["lastGood"]> {
    return this.last;
  }
  describe(): Readonly<Record<string, unknown>> {
    return { file: "test" };
  }
}
