/**
 * What containers and pods use. On the engine's host it is read from cgroup files and /proc without any
 * request to the engine; elsewhere the engine is asked. Which one is decided once per engine connection, as
 * for ports/host.ts.
 */
import type { Nanoseconds } from "../../lib/time.js";
import type { InterfaceReading, ResourceReading } from "../../domain/resource-reading.js";
import type { Snapshot } from "../../domain/snapshot.js";

/** A pod to be read: its sandbox, and those of its containers that run. */
export interface PodParts {
  readonly sandbox: Snapshot;
  readonly containers: readonly Snapshot[];
  readonly hostNetwork: boolean;
  /** Whether nothing but this pod is in the cgroup parent that the sandbox was made with. */
  readonly hasOwnCgroup: boolean;
}

export interface PodReading {
  /** Readings of the whole pod; undefined if nothing of it could be read. */
  readonly resources: ResourceReading | undefined;
  /** Without `lo`, `eth0` first; undefined for the host's network and for what is out of reach. */
  readonly interfaces: readonly InterfaceReading[] | undefined;
  /** By container id; those that ended meanwhile are missing. */
  readonly containers: ReadonlyMap<string, ResourceReading>;
}

export interface ReadOptions {
  /** With what only metrics show. */
  readonly details: boolean;
}

/**
 * No container that cannot be read fails the others: it is left out. Readings come in any order, and where
 * that is no detour each is made when it is taken: one that is used up at once costs next to nothing,
 * hundreds that wait for each other are moved by each garbage collection meanwhile.
 */
export interface StatsSource {
  /** Readings of running containers, with their ids. */
  readContainers(
    containers: readonly Snapshot[],
    options: ReadOptions,
    signal: AbortSignal,
  ): AsyncIterable<readonly [string, ResourceReading]>;
  /** Readings of ready pods, with their sandbox ids. */
  readPods(
    pods: readonly PodParts[],
    options: ReadOptions,
    signal: AbortSignal,
  ): AsyncIterable<readonly [string, PodReading]>;
  /** Why the latest reading of a container or sandbox failed, for as long as that is so. */
  failureOf(id: string): string | undefined;
  /** Lets go of what is kept (open files, samples) for everything that does not run any more. */
  forgetAllBut(isRunning: (id: string) => boolean): void;
  /** Lets go of everything. */
  close(): void;
}

export interface LayerUsage {
  /** Time of the measurement. */
  readonly timestamp: Nanoseconds;
  /** As on disk: whole blocks, hard links once. */
  readonly usedBytes: number;
  /** Undefined where the engine was asked: it does not count them. */
  readonly inodes: number | undefined;
}

/** Sizes of writable layers, measured in the background: asking costs nothing, and may find nothing yet. */
export interface LayerUsages {
  usageOf(containerId: string): LayerUsage | undefined;
}
