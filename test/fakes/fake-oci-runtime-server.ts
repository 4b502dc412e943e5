import { ociRuntimeName } from "../../src/domain/oci-changes.js";
import type { CreateBody } from "../../src/domain/create-body.js";

/** A server of the OCI runtime whose questions the engine of a test asks by `startFailure`. */
export class FakeOciRuntimeServer {
  /** Whether the engine's runtime asks at all. */
  isAsked = true;
  #words = "";

  listen(): Promise<void> {
    return Promise.resolve();
  }

  refuse(_id: string, words: string): Disposable {
    this.#words = words;
    return { [Symbol.dispose]: () => (this.#words = "") };
  }

  /** For `FakeEngine.startFailure`. */
  readonly startFailure = (_name: string, { HostConfig }: CreateBody): Error | undefined =>
    this.isAsked && this.#words !== "" && HostConfig.Runtime === ociRuntimeName
      ? new Error(`OCI runtime create failed: dockershim: ${this.#words}`)
      : undefined;
}
