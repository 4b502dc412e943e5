import { ociRuntimeName } from "../../src/domain/oci-changes.js";
import type { CreateBody } from "../../src/domain/create-body.js";

/** A server of the OCI runtime whose questions the engine of a test asks by `startFailure`. */
export class FakeOciRuntimeServer {
  /** Whether the engine's runtime asks at all. */
  isAsked = true;
  #program = "";

  listen(): Promise<void> {
    return Promise.resolve();
  }

  try(_id: string, program: string): Disposable {
    this.#program = program;
    return { [Symbol.dispose]: () => (this.#program = "") };
  }

  /** For `FakeEngine.startFailure`. */
  readonly startFailure = (_name: string, { HostConfig }: CreateBody): Error | undefined =>
    this.isAsked && this.#program !== "" && HostConfig.Runtime === ociRuntimeName
      ? new Error(`OCI runtime create failed: exec: "${this.#program}": executable file not found in $PATH`)
      : undefined;
}
