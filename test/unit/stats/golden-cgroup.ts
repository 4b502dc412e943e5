/**
 * Recorded cgroups, laid out as files: of one pod with a pause container and one more, on a host of either
 * version.
 */
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ResourceReading } from "../../../src/domain/resource-reading.js";
import { Cgroup } from "../../../src/shim/stats/cgroup/cgroup.js";
import { DescriptorCache } from "../../../src/shim/stats/descriptor-cache.js";
import { collect } from "../../../src/lib/streams.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

export interface GoldenCgroup {
  /** Files by controller and name, of the container and of the pod. */
  readonly container: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly pod: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly netDev: string;
  readonly limits: string;
  /** The engine's statistics of the container, and of the pause container. */
  readonly engineStats: unknown;
  readonly pauseEngineStats: unknown;
}

export async function readGolden(version: "v1" | "v2"): Promise<GoldenCgroup> {
  const path = new URL(`../../golden/cgroup/${version}.json`, import.meta.url);
  return JSON.parse(await readFile(path, "utf8")) as GoldenCgroup;
}

export const goldenId = idOf("c0");

export interface LaidOut extends AsyncDisposable {
  readonly golden: GoldenCgroup;
  readonly root: string;
  /** As HostAccess has it. */
  readonly path: string;
  readonly directories: ReadonlyMap<string, string>;
}

export async function layOut(version: "v1" | "v2", id = goldenId): Promise<LaidOut> {
  const golden = await readGolden(version);
  const temporary = await temporaryDirectory();
  const root = temporary.path;
  const path = `/kubepods/pod1/${id}`;
  const directories = new Map<string, string>();
  for (const [controller, files] of Object.entries(golden.container)) {
    const pod = join(root, controller === "" ? "unified" : controller, "kubepods/pod1");
    await mkdir(join(pod, id), { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(join(pod, id, name), text);
    for (const [name, text] of Object.entries(golden.pod[controller] ?? {}))
      await writeFile(join(pod, name), text);
    directories.set(controller, join(pod, id));
  }
  return { golden, root, path, directories, [Symbol.asyncDispose]: () => temporary[Symbol.asyncDispose]() };
}

/** One reading, a millisecond after the start; of the pod above the container with `ofPod`. */
export function readOnce(
  { path, directories }: LaidOut,
  { details = false, ofPod = false } = {},
): ResourceReading {
  const parents = [...directories].map(([name, directory]) => [name, `${directory}/..`] as const);
  const places = ofPod ? new Map(parents) : directories;
  const cgroup = new Cgroup(ofPod ? "/kubepods/pod1" : path, places, new DescriptorCache(), 0);
  const reading = cgroup.read({ details }, 1);
  cgroup.close();
  assert.ok(reading);
  return reading;
}

/** All readings of a source. */
export async function byId<Reading>(
  readings: AsyncIterable<readonly [string, Reading]>,
): Promise<ReadonlyMap<string, Reading>> {
  return new Map(await collect(readings));
}
