import type { Call } from "../../lib/call.js";
import { nowNanoseconds } from "../../lib/time.js";
import type { SingleFlight } from "../../lib/sync/single-flight.js";
import type { Answer, FilesystemUsage, ImageFsInfoResponse } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Services } from "../services.js";

/** Sizing all layers is slow on the engine's side, and garbage collection asks every minute or so. */
const freshForMs = 30_000;

export type ImageFsDeps = Pick<Services, "engine" | "link" | "host" | "model" | "layers"> & {
  readonly flight: SingleFlight<Answer<FilesystemUsage>>;
  /** By a clock that is never set. */
  readonly cache: { value: Answer<FilesystemUsage> | undefined; readAtMs: number };
};

/**
 * Disk use of the images, each shared layer once, and of what containers have written. The time stamp is that of the
 * measurement. Both name one directory, by which kubelets know that there is one file system for both, as it always is
 * with Docker.
 */
export async function imageFsInfo(
  _request: unknown,
  deps: ImageFsDeps,
  call: Call,
): Promise<Answer<ImageFsInfoResponse>> {
  const facts = await deps.link.live(call.signal);
  const { cache } = deps;
  if (cache.value === undefined || performance.now() - cache.readAtMs > freshForMs) {
    cache.value = await deps.flight.run("image file system", call.signal, (signal) =>
      measure(facts, deps, signal),
    );
    cache.readAtMs = performance.now();
  }
  const mountpoint = await deps.host().imageDirectory(facts);
  return { image_filesystems: [cache.value], container_filesystems: [containerFileSystem(mountpoint, deps)] };
}

/** What has been measured so far of the writable layers of running containers. */
function containerFileSystem(
  mountpoint: string,
  { model, layers }: Pick<ImageFsDeps, "model" | "layers">,
): Answer<FilesystemUsage> {
  const usages = [...model.containers()].flatMap(({ id }) => layers.usageOf(id) ?? []);
  const inodes = usages.flatMap((usage) => usage.inodes ?? []);
  return {
    timestamp: String(nowNanoseconds()),
    fs_id: { mountpoint },
    used_bytes: { value: String(usages.reduce((sum, { usedBytes }) => sum + usedBytes, 0)) },
    // A sum over some of them would be no number of anything.
    inodes_used:
      inodes.length < usages.length ? null : { value: String(inodes.reduce((sum, one) => sum + one, 0)) },
  };
}

async function measure(
  facts: NodeFacts,
  deps: ImageFsDeps,
  signal: AbortSignal,
): Promise<Answer<FilesystemUsage>> {
  const { engine, host } = deps;
  const mountpoint = await host().imageDirectory(facts);
  const [usedBytes, usage] = await Promise.all([
    engine.imageDiskUsage(signal),
    host().fileSystemUsage(mountpoint),
  ]);
  return {
    timestamp: String(nowNanoseconds()),
    fs_id: { mountpoint },
    used_bytes: { value: String(usedBytes ?? usage?.usedBytes ?? 0) },
    inodes_used: { value: String(usage?.usedInodes ?? 0) },
  };
}
