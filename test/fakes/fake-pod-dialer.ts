import { PassThrough, type Duplex } from "node:stream";
import type { Snapshot } from "../../src/domain/snapshot.js";
import type { PodDialer } from "../../src/shim/ports/pod-dialer.js";

/** Every port answers with an echo, unless `refuse` says otherwise. */
export class FakePodDialer implements PodDialer {
  readonly calls: { readonly sandboxId: string; readonly port: number }[] = [];
  refuse: (port: number) => Error | undefined = () => undefined;

  async connect(sandbox: Snapshot, port: number, signal: AbortSignal): Promise<Duplex> {
    await Promise.resolve();
    signal.throwIfAborted();
    this.calls.push({ sandboxId: sandbox.id, port });
    const failure = this.refuse(port);
    if (failure !== undefined) throw failure;
    return new PassThrough();
  }
}
