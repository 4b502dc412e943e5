/** The pods of an engine, as `dockershim wipe` finds them: by their labels, and by the files of those without containers. */
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  containerType,
  inheritsPodType,
  logPathLabel,
  mayInheritPodType,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
  sandboxIdLabel,
  sandboxType,
  typeLabel,
} from "../../domain/labels.js";
import { parseName } from "../../domain/names.js";
import { type ListedContainer, listedName } from "../../domain/snapshot.js";
import { namesIn } from "../../lib/files/directories.js";
import { isTable, type Table } from "../../lib/files/record-format.js";
import { shownText } from "../../lib/shown-text.js";
import { imageVolumeLabel } from "../../shim/images/image-volume-store.js";
import { knownEngineId } from "../../shim/recovery/remove-orphaned-networks.js";
import { scratchLabel } from "../../shim/images/scratch-containers.js";
import type { Engine } from "../../shim/ports/engine.js";

export interface PodToWipe {
  readonly id: string;
  /** `remove  pod default/web (running)` */
  readonly text: string;
  readonly logDirectories: readonly string[];
}

export interface FoundPods {
  readonly pods: readonly PodToWipe[];
  /** Containers whose sandbox is gone. */
  readonly orphans: readonly Pick<PodToWipe, "id" | "text">[];
  /** How many pods have a container that runs. */
  readonly running: number;
  /** Names of containers that are neither of pods nor of this program. */
  readonly others: readonly string[];
}

/** As the kubelet has them. */
const usualLogs = "/var/log/pods";
const ownLabels = [imageVolumeLabel, scratchLabel];

export async function findPods(
  engine: Pick<Engine, "listContainers" | "inspectImage">,
  { stateDir, engineId }: { readonly stateDir: string; readonly engineId: string },
  signal: AbortSignal,
): Promise<FoundPods> {
  const all = await withoutInheritedLabels(await engine.listContainers({}, signal), engine, signal);
  const sandboxes = all.filter(({ labels }) => labels[typeLabel] === sandboxType);
  const ids = new Set(sandboxes.map(({ id }) => id));
  const containers = all.filter(({ labels }) => labels[typeLabel] === containerType);
  const ofSandbox = (id: string): readonly ListedContainer[] =>
    containers.filter(({ labels }) => labels[sandboxIdLabel] === id);
  const isRunning = ({ status }: ListedContainer): boolean =>
    ["running", "paused", "restarting"].includes(status);
  const pods: PodToWipe[] = [];
  let running = 0;
  for (const sandbox of sandboxes) {
    const members = ofSandbox(sandbox.id);
    const runs = [sandbox, ...members].some(isRunning);
    if (runs) running += 1;
    const { namespace, name, uid } = podOf(sandbox);
    const pod = shownText(`${namespace}/${name}`);
    pods.push({
      id: sandbox.id,
      text: `remove  pod ${pod}${runs ? " (running)" : ""}: ${members.length} containers, network, logs`,
      logDirectories: await logDirectories({ namespace, name, uid }, sandbox.id, members, stateDir),
    });
  }
  // On another engine every pod of the first one looks gone, although it may well run there.
  if (((await knownEngineId(stateDir)) ?? engineId) === engineId)
    pods.push(...(await recordedPods(stateDir, ids)));
  const orphans = containers.filter(({ labels }) => !ids.has(labels[sandboxIdLabel] ?? ""));
  const others = all.filter(
    ({ labels }) => labels[typeLabel] === undefined && !ownLabels.some((key) => Object.hasOwn(labels, key)),
  );
  return {
    pods,
    orphans: orphans.map((container) => ({
      id: container.id,
      text: `remove  container ${shownText(listedName(container))} of a pod that is gone`,
    })),
    running: running + orphans.filter(isRunning).length,
    others: others.map((container) => shownText(listedName(container))),
  };
}

/** The server, too, takes none for a pod's that has the labels of pods from its image alone. */
async function withoutInheritedLabels(
  listed: readonly ListedContainer[],
  engine: Pick<Engine, "inspectImage">,
  signal: AbortSignal,
): Promise<readonly ListedContainer[]> {
  const seen: ListedContainer[] = [];
  for (const one of listed) {
    const named = { name: listedName(one), labels: one.labels };
    const image = mayInheritPodType(named) ? await engine.inspectImage(one.imageId, signal) : undefined;
    seen.push(inheritsPodType(named, image) ? { ...one, labels: {} } : one);
  }
  return seen;
}

/** Pods whose containers another program has removed: their networks are released by what was written of them. */
async function recordedPods(stateDir: string, present: ReadonlySet<string>): Promise<readonly PodToWipe[]> {
  const records = (await namesIn(join(stateDir, "pods"))).map((name) => name.replace(/\.json$/, ""));
  const names = new Set([...records, ...(await namesIn(join(stateDir, "sandbox")))]);
  const ids = [...names].filter((name) => /^[0-9a-f]{64}$/.test(name) && !present.has(name));
  return Promise.all(
    ids.map(async (id) => {
      const record = await readRecord(stateDir, id);
      const text = (key: string): string => textIn(record, key);
      const pod = { namespace: text("namespace"), name: text("name"), uid: text("uid") };
      return {
        id,
        text: `remove  pod ${id.slice(0, 12)}, whose containers are gone: network, logs`,
        logDirectories: await logDirectories(pod, id, [], stateDir),
      };
    }),
  );
}

interface PodName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** By the name that the shim gave it, else by the labels of kubelets. */
function podOf(sandbox: ListedContainer): PodName {
  const { labels } = sandbox;
  const parsed = parseName(listedName(sandbox))?.pod;
  return {
    namespace: parsed?.namespace ?? labels[podNamespaceLabel] ?? "",
    name: parsed?.name ?? labels[podNameLabel] ?? "",
    uid: parsed?.uid ?? labels[podUidLabel] ?? "",
  };
}

/** Only directories that have the name of the pod: a client may have named any other one. */
async function logDirectories(
  { namespace, name, uid }: PodName,
  id: string,
  members: readonly ListedContainer[],
  stateDir: string,
): Promise<readonly string[]> {
  const own = `${namespace}_${name}_${uid}`;
  if (name === "" || own.includes("/")) return [];
  const named = [
    join(usualLogs, own),
    await recordedDirectory(stateDir, id),
    ...members.map(({ labels }) => dirname(dirname(labels[logPathLabel] ?? ""))),
  ];
  // play appends the server to the uid: pods of two servers may have one name.
  const isOwn = (path: string): boolean =>
    path.startsWith("/") && (basename(path) === own || basename(path).startsWith(`${own}.`));
  return [...new Set(named.filter(isOwn))];
}

async function recordedDirectory(stateDir: string, id: string): Promise<string> {
  return textIn(await readRecord(stateDir, id), "logDirectory");
}

/** Nothing in it of another program's pod, and when it is damaged: the usual directory of logs counts. */
async function readRecord(stateDir: string, id: string): Promise<Table> {
  try {
    const record: unknown = JSON.parse(await readFile(join(stateDir, "pods", `${id}.json`), "utf8"));
    return isTable(record) ? record : {};
  } catch {
    return {};
  }
}

function textIn(record: Table, key: string): string {
  const value = record[key];
  return typeof value === "string" ? value : "";
}
