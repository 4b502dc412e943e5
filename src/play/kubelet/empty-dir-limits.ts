/** sizeLimit of emptyDir volumes on disk, which nothing stops from growing: a kubelet evicts the pod. */
import { messageOf } from "../../lib/errors.js";
import { parseQuantity } from "../../domain/quantity.js";
import type { Clock } from "./clock.js";
import type { EventSink } from "./events.js";
import type { ObservedPod } from "../pod-rules/observed-pod.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { MountedFiles } from "../node/mounted-files.js";
import { type Directories, volumePath } from "../pod-config/pod-paths.js";

/** The kubelet's: `monitoringInterval` of its eviction manager. */
const periodMs = 10_000;

interface EmptyDirDeps {
  readonly clock: Clock;
  readonly mounted: Pick<MountedFiles, "diskUsage">;
  readonly directories: Directories;
  readonly event: EventSink;
}

type Limited = Pick<Manifest, "key" | "pod">;

export class EmptyDirLimits {
  /** In milliseconds of `uptime`. */
  #dueAt = 0;
  #failure: string | undefined;

  constructor(private readonly deps: EmptyDirDeps) {}

  /** When to look again, in milliseconds since 1970; Infinity for a pod without such limits. */
  nextAt({ pod }: Limited): number {
    if (limitsOf(pod).length === 0) return Infinity;
    const { clock } = this.deps;
    return clock.now() + Math.max(0, this.#dueAt - clock.uptime());
  }

  /** How the pod ends; undefined when no volume is too large, or it is not known yet. Never rejects. */
  async end(
    manifest: Limited,
    { sandboxes }: ObservedPod,
  ): Promise<Pick<PodStatus, "phase" | "reason" | "message"> | undefined> {
    const { clock, mounted, directories, event } = this.deps;
    const isUp = sandboxes.some(({ isReady }) => isReady); // Before that there may be no volumes.
    if (!isUp || this.nextAt(manifest) > clock.now()) return undefined;
    try {
      const message = await emptyDirExcess(manifest, mounted, directories);
      this.#failure = undefined;
      if (message === undefined) return undefined;
      event("Warning", "Evicted", message);
      return { phase: "Failed", reason: "Evicted", message };
    } catch (error) {
      // Files may go while they are counted.
      if (this.#failure !== messageOf(error)) event("Warning", "EvictionThresholdUnknown", messageOf(error));
      this.#failure = messageOf(error);
      return undefined;
    } finally {
      this.#dueAt = clock.uptime() + periodMs;
    }
  }
}

/** Why the pod must be evicted; undefined when no volume is too large. */
async function emptyDirExcess(
  { key, pod }: Limited,
  mounted: Pick<MountedFiles, "diskUsage">,
  directories: Directories,
): Promise<string | undefined> {
  for (const { name, limit, text } of limitsOf(pod)) {
    const used = await mounted.diskUsage(volumePath(directories, key, "empty-dir", name));
    // The kubelet's words.
    if (used > limit) return `Usage of EmptyDir volume "${name}" exceeds the limit "${text}".`;
  }
  return undefined;
}

function limitsOf({ spec }: Limited["pod"]): readonly { name: string; limit: bigint; text: string }[] {
  return (spec.volumes ?? []).flatMap(({ name, emptyDir: { sizeLimit: text, medium } = {} }) => {
    // The kernel limits those in memory.
    if (text === undefined || medium === "Memory") return [];
    const limit = parseQuantity(text, 1) ?? 0n;
    return limit > 0n ? [{ name, limit, text }] : [];
  });
}
