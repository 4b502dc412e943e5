/**
 * Shared set-up of the tests of one file: unique names, an image, a directory, and the clean-up of all of
 * them.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import type { Answer, ContainerConfig, PodSandboxConfig } from "../../src/domain/cri.js";
import { messageOf } from "../../src/lib/errors.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import {
  containersOfImage,
  containersWithLabel,
  docker,
  inspectImage,
  loadImage,
  removeContainer,
  removeImage,
} from "./docker.js";
import { Pod } from "./pod.js";
import type { CriClient } from "./cri-client.js";
import { EngineProxy } from "./engine-proxy.js";
import { ShimProcess, type ShimOptions } from "./shim-process.js";
import { testImageArchive, type TestImageOptions } from "./test-image.js";

/** On every sandbox and container of the tests; the value is the run's. */
export const runLabel = "dockershim.test/run";

/** Whether long tests run with full counts. */
export const long = process.env["DOCKERSHIM_TEST_LONG"] === "1";

/** The reason why tests with a real engine cannot run here, or false. For the option `skip` of node:test. */
export async function reasonToSkip(): Promise<string | false> {
  try {
    const { status } = await docker("GET", "/_ping");
    if (status !== 200) return `the Docker Engine answers ${status}`;
    if (process.getuid?.() !== 0) return "not root";
    return false;
  } catch (error) {
    return `no Docker Engine: ${messageOf(error)}`;
  }
}

export type PodOverrides = Omit<Answer<PodSandboxConfig>, "metadata"> & {
  readonly metadata?: Answer<PodSandboxConfig>["metadata"];
};

export class TestBed {
  /** Part of all names. */
  readonly run = randomBytes(4).toString("hex");
  readonly #undo: (() => Promise<unknown>)[] = [];
  #directory = "";
  #hadPauseImage = false;
  #shim: ShimProcess | undefined;
  #count = 0;

  static async open(): Promise<TestBed> {
    const bed = new TestBed();
    await bed.#open();
    return bed;
  }

  /**
   * Opens a bed before the tests of the current suite, with a shim if `shim` is given, and closes it after
   * them.
   */
  static ofSuite({ shim }: { readonly shim?: Partial<ShimOptions> } = {}): TestBed {
    const bed = new TestBed();
    before(async () => {
      await bed.#open();
      if (shim !== undefined) bed.#shim = await bed.startShim(shim);
    });
    after(() => bed.close());
    return bed;
  }

  async #open(): Promise<void> {
    this.#hadPauseImage = (await inspectImage(builtinPauseReference)) !== undefined;
    this.#directory = await mkdtemp(join(tmpdir(), "dockershim-integration-"));
    await this.load({ reference: this.image, marker: this.run });
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const onSignal = (): void => {
        void this.close().finally(() => process.exit(1));
      };
      process.once(signal, onSignal);
      this.#undo.push(async () => process.off(signal, onSignal));
    }
  }

  /** A directory of its own for everything. */
  get directory(): string {
    return this.#directory;
  }

  /** The shim of the suite. */
  get shim(): ShimProcess {
    if (this.#shim === undefined) throw new Error("the suite has no shim");
    return this.#shim;
  }

  /** A busybox image that only this test file has. */
  get image(): string {
    return `dockershim.test/busybox:${this.run}`;
  }

  /** Loads an image, which close() removes. */
  async load(options: TestImageOptions): Promise<void> {
    this.#undo.push(async () => {
      if ((await inspectImage(options.reference)) === undefined) return;
      // Containers of a killed shim may belong to no pod and have no label of this run.
      for (const id of await containersOfImage(options.reference)) await removeContainer(id);
      await removeImage(options.reference);
    });
    await loadImage(await testImageArchive(options));
  }

  /** A shim with its own state directory, or with the `directory` of an earlier shim. */
  async startShim(options: Partial<ShimOptions> = {}): Promise<ShimProcess> {
    return this.own(await ShimProcess.start({ directory: await this.newDirectory(), ...options }));
  }

  async startShimWithoutEngine(options: Partial<ShimOptions>): Promise<ShimProcess> {
    return this.own(
      await ShimProcess.startWithoutEngine({ directory: await this.newDirectory(), ...options }),
    );
  }

  /** Between a shim and the engine; listens at once. */
  async startProxy(): Promise<EngineProxy> {
    return this.own(await EngineProxy.listen(join(await this.newDirectory(), "proxy.sock")));
  }

  async newDirectory(): Promise<string> {
    return mkdtemp(join(this.directory, "d-"));
  }

  /** Disposed of at the end, last added first. */
  own<T extends AsyncDisposable>(thing: T): T {
    this.onClose(async () => thing[Symbol.asyncDispose]());
    return thing;
  }

  /** Called at the end, last added first. */
  onClose(undo: () => Promise<unknown>): void {
    this.#undo.push(undo);
  }

  /** A name of this run alone. */
  newName(prefix = "t"): string {
    return `${prefix}-${this.run}-${(this.#count += 1)}`;
  }

  /** The configuration of a pod that only this test knows. */
  podConfig(overrides: PodOverrides = {}): Answer<PodSandboxConfig> {
    const name = this.newName();
    return {
      metadata: { name, namespace: "dockershim-test", uid: `uid-${name}`, attempt: 0 },
      log_directory: join(this.directory, "logs", name),
      linux: {},
      ...overrides,
      labels: { [runLabel]: this.run, ...overrides.labels },
    };
  }

  /** The configuration of a container that runs until it is told to stop. */
  containerConfig(overrides: Answer<ContainerConfig> = {}): Answer<ContainerConfig> {
    const { name } = overrides.metadata ?? {};
    return {
      image: { image: this.image },
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"],
      log_path: `${name ?? "main"}.log`,
      linux: { security_context: { namespace_options: { pid: 1 } } },
      ...overrides,
      metadata: { name: "main", attempt: 0, ...overrides.metadata },
      labels: { [runLabel]: this.run, ...overrides.labels },
    };
  }

  /** Runs a sandbox; it is stopped and removed at the end of its scope. */
  async runPod(cri: CriClient, overrides: PodOverrides = {}, runtimeHandler = ""): Promise<Pod> {
    return Pod.run(this, cri, this.podConfig(overrides), runtimeHandler);
  }

  /** Ids of everything that this run has in the engine. */
  async ownContainers(): Promise<readonly string[]> {
    return containersWithLabel(`${runLabel}=${this.run}`);
  }

  /** Ends the shims and removes containers, images and files. Reports what went wrong after all is done. */
  async close(): Promise<void> {
    const errors: unknown[] = [];
    const attempt = async (step: () => Promise<unknown>): Promise<void> => {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    };
    // Images last: containers use them, and those of a shim that still runs may come back.
    const undo = this.#undo.splice(0).reverse();
    await attempt(async () => {
      for (const id of await this.ownContainers()) await attempt(() => removeContainer(id));
    });
    for (const step of undo) await attempt(step);
    await attempt(async () => {
      for (const id of await this.ownContainers()) await attempt(() => removeContainer(id));
    });
    if (!this.#hadPauseImage) await attempt(() => removeImage(builtinPauseReference));
    await attempt(() => rm(this.directory, { recursive: true, force: true }));
    if (errors.length > 0) throw new AggregateError(errors, errors.map(messageOf).join("; "));
  }
}
