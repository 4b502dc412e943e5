/** `play --follow`: shows state changes and logs until every container has ended or the user leaves. */
import { join } from "node:path";
import { sleep } from "../../shim/lib/abort.js";
import { isKind, messageOf } from "../../shim/lib/errors.js";
import type { CriClient } from "../client.js";
import type { PlayFiles } from "../containers/files.js";
import { LineAssembler, LogTail, parseLogLine } from "./log-lines.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type ObservedContainer, type ObservedState, describeExit } from "../kubelet/observed-pod.js";
import { observePod } from "../kubelet/observe.js";
import { type Directories, logDirectory, logPath } from "../containers/pod-files.js";
import { type PodState, podState } from "./pod-view.js";

export interface FollowDeps {
  readonly client: Pick<
    CriClient,
    "listPodSandboxes" | "podSandboxStatus" | "listContainers" | "containerStatus"
  >;
  readonly files: Pick<PlayFiles, "readTail">;
  readonly directories: Directories;
  /** A state change. */
  readonly report: (line: string) => void;
  /** A line of a container's output, with the name of the container in front. */
  readonly output: (line: string) => void;
  readonly pollMs: number;
}

interface FollowedContainer {
  readonly tail: LogTail;
  readonly assembler: LineAssembler;
  readonly prefix: string;
  lastState: ObservedState | undefined;
}

/** The last state of each pod, in the order of `manifests`; undefined when `signal` ended it. */
export async function followPods(
  podsOf: () => readonly Manifest[],
  deps: FollowDeps,
  signal: AbortSignal,
): Promise<readonly PodState[] | undefined> {
  const followed = new Map<string, FollowedContainer>();
  let isLost = false;
  try {
    for (;;) {
      try {
        const states: PodState[] = [];
        const manifests = podsOf();
        for (const manifest of manifests) {
          const observed = await observePod(deps, manifest.key, signal);
          for (const container of [...observed.containers].reverse()) {
            await followContainer(container, manifest, manifests.length > 1, followed, deps);
          }
          states.push(podState(manifest, observed));
        }
        if (isLost) deps.report("the CRI server is back");
        isLost = false;
        if (states.every((state) => state === "Succeeded" || state === "Failed" || state === "Absent"))
          return states;
      } catch (error) {
        if (signal.aborted) return undefined;
        // The containers keep running while the shim restarts.
        if (!isKind(error, "unavailable", "timeout")) throw error;
        if (!isLost) deps.report(`the CRI server does not answer, retrying: ${messageOf(error)}`);
        isLost = true;
      }
      await sleep(deps.pollMs, signal).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
      if (signal.aborted) return undefined;
    }
  } finally {
    for (const { tail } of followed.values()) await tail[Symbol.asyncDispose]();
  }
}

async function followContainer(
  container: ObservedContainer,
  manifest: Manifest,
  isOneOfMany: boolean,
  followed: Map<string, FollowedContainer>,
  deps: FollowDeps,
): Promise<void> {
  const { key } = manifest;
  let entry = followed.get(container.id);
  if (entry === undefined) {
    const path = join(logDirectory(deps.directories, key), logPath(container.name, container.attempt));
    const prefix = isOneOfMany ? `${key.name}/${container.name}` : container.name;
    entry = { tail: new LogTail(path), assembler: new LineAssembler(), prefix, lastState: undefined };
    followed.set(container.id, entry);
  }
  const { tail, assembler, prefix } = entry;
  // The container had ended before this read, so the log is complete.
  const lines = (await tail.read())
    .map((line) => assembler.add(parseLogLine(line)))
    .filter((line) => line !== undefined);
  if (container.state === "exited") lines.push(...assembler.flush());
  for (const line of lines) deps.output(`${prefix}: ${line}`);
  if (container.state === entry.lastState) return;
  entry.lastState = container.state;
  const ended = container.state === "exited";
  const state = ended ? `ended with ${describeExit(container).trim()}` : container.state;
  deps.report(`${key.namespace}/${key.name}: container ${container.name} ${state}`);
}
