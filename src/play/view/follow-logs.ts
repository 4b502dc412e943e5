/** Follows the logs of the containers that the kubelet sees. */
import { join } from "node:path";
import { messageOf } from "../../lib/errors.js";
import type { HostFiles } from "../node/files.js";
import { type Directories, logDirectory, logPath } from "../pod-config/pod-paths.js";
import type { Clock } from "../kubelet/clock.js";
import type { KubeletListener } from "../kubelet/kubelet.js";
import type { ObservedPod } from "../pod-rules/observed-pod.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import { LineAssembler, parseLogLine } from "../node/log-lines.js";
import { LogTail } from "../node/log-tail.js";

/** A line of a container's output, as the container wrote it. */
export interface LogLine {
  readonly key: PodKey;
  readonly container: string;
  readonly text: string;
}

export interface LogFollowerDeps {
  readonly files: Pick<HostFiles, "openFile">;
  readonly directories: Directories;
  readonly clock: Clock;
  readonly output: (line: LogLine) => void;
  readonly report: (line: string) => void;
  /** Is awaited now and then: what `output` got must have been taken. */
  readonly pace?: () => Promise<void>;
  readonly pollMs?: number;
}

interface FollowedContainer {
  readonly key: PodKey;
  readonly container: string;
  readonly tail: LogTail;
  readonly assembler: LineAssembler;
  hasExited: boolean;
}

/** A listener of a kubelet. Its disposal reads the rest of the logs. */
export class LogFollower implements KubeletListener, AsyncDisposable {
  readonly #followed = new Map<string, FollowedContainer>();
  /** Containers whose log was read to its end, by the pod. */
  readonly #done = new Map<string, Set<string>>();
  #reading: Promise<void> = Promise.resolve();
  #cancel: (() => void) | undefined;
  #isDisposed = false;

  constructor(private readonly deps: LogFollowerDeps) {
    this.#schedule();
  }

  onStatus({ key }: Manifest, _status: PodStatus, { containers }: ObservedPod): void {
    const pod = `${key.namespace}/${key.name}`;
    const present = new Set(containers.map(({ id }) => id));
    const done = new Set([...(this.#done.get(pod) ?? [])].filter((id) => present.has(id)));
    this.#done.set(pod, done);
    for (const { id, name, attempt, state } of [...containers].reverse()) {
      if (done.has(id)) continue;
      let entry = this.#followed.get(id);
      if (entry === undefined) {
        const path = join(logDirectory(this.deps.directories, key), logPath(name, attempt));
        const tail = new LogTail(path, this.deps.files);
        entry = { key, container: name, tail, assembler: new LineAssembler(), hasExited: false };
        this.#followed.set(id, entry);
      }
      entry.hasExited ||= state === "exited";
    }
    for (const [id, entry] of this.#followed)
      if (entry.key.name === key.name && entry.key.namespace === key.namespace && !present.has(id))
        entry.hasExited = true;
  }

  onRemoved({ namespace, name }: Pick<PodKey, "namespace" | "name">): void {
    this.#done.delete(`${namespace}/${name}`);
    for (const entry of this.#followed.values())
      if (entry.key.name === name && entry.key.namespace === namespace) entry.hasExited = true;
  }

  /** Reads what was written until now. Calls are served one after the other. */
  read(): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      for (const [id, entry] of this.#followed) await this.#readOne(id, entry);
    });
    return this.#reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    this.#cancel?.();
    await this.read();
    for (const { key, container, tail, assembler } of this.#followed.values()) {
      for (const text of assembler.flush()) this.deps.output({ key, container, text });
      await tail[Symbol.asyncDispose]();
    }
    this.#followed.clear();
  }

  #schedule(): void {
    if (this.#isDisposed) return;
    this.#cancel = this.deps.clock.after(this.deps.pollMs ?? 250, () => {
      void this.read().then(() => this.#schedule());
    });
  }

  /** Never rejects. */
  async #readOne(id: string, entry: FollowedContainer): Promise<void> {
    const { key, container, tail, assembler } = entry;
    // Of a container that had ended before this read, the log is complete.
    const isLast = entry.hasExited;
    let isBroken = false;
    try {
      await tail.read((line) => {
        const text = assembler.add(parseLogLine(line));
        if (text !== undefined) this.deps.output({ key, container, text });
      }, this.deps.pace);
    } catch (error) {
      isBroken = true;
      const name = `${key.namespace}/${key.name}: container ${container}`;
      this.deps.report(`${name}: its log cannot be read: ${messageOf(error)}`);
    }
    if (!isLast && !isBroken) return;
    for (const text of assembler.flush()) this.deps.output({ key, container, text });
    this.#followed.delete(id);
    this.#done.get(`${key.namespace}/${key.name}`)?.add(id);
    await tail[Symbol.asyncDispose]();
  }
}
