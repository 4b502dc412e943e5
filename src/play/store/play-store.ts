/**
 * What plays have left to the supervisor of a CRI socket: the texts of their files and how they are read. One
 * file for each play, which only root may read: Secrets are in it.
 *
 * Several processes change the store at once, without a lock. No stored play is ever written again: what is
 * taken from it has a file of its own, which names the play and the workload. Of a workload that several plays
 * have, the play that was stored last counts.
 */
import { createHash, randomUUID } from "node:crypto";
import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import { writeFileAtomically } from "../../lib/files/atomic-file.js";
import { namesIn } from "../../lib/files/directories.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { ManifestFile } from "../manifests/documents.js";
import { boolean, integer, list, mandatory, object, parseStored, string } from "../manifests/schema.js";
import { serverId, socketOf } from "../pod-config/pod-paths.js";
import type { Owner } from "../manifests/manifest.js";
import type { Removal, ObjectKey, Workloads } from "../manifests/workloads.js";

const formatVersion = 1;
/** The files of a play have at most 64 MiB each. */
const limitBytes = 256 * 1024 ** 2;

const readPlay = object({
  version: mandatory(integer(formatVersion, formatVersion)),
  endpoint: mandatory(string()),
  files: mandatory(
    list(object({ name: mandatory(string()), text: mandatory(string()), namespace: string() })),
  ),
  replicas: mandatory(list(string())),
  schedule: mandatory(boolean()),
  localVolumes: mandatory(boolean()),
  fast: mandatory(boolean()),
  workloads: mandatory(list(string())),
  storedAt: integer(0, Number.MAX_SAFE_INTEGER),
});

/** Secrets are in the files of plays. */
export const forRootAlone = { mode: 0o600, temporaryPrefix: ".play-", directoryMode: 0o700 };

/** Names of other files of the directory begin otherwise. */
export const playPrefix = "play-";

/** How the files are read; see the flags of `play`. */
export interface StoredPlay {
  readonly files: readonly ManifestFile[];
  readonly replicas: readonly string[];
  readonly schedule: boolean;
  readonly localVolumes: boolean;
  /** Back-off times are a tenth of the kubelet's. */
  readonly fast: boolean;
  /** What of the files the supervisor keeps: see `workloadName`. */
  readonly workloads: readonly string[];
}

export interface FoundPlay extends StoredPlay {
  readonly id: string;
  /** Another one after each change of the file. */
  readonly version: string;
}

export class PlayStore {
  readonly #endpoint: string;
  /** The plays of this endpoint. */
  readonly directory: string;

  constructor(directory: string, endpoint: string) {
    // A supervisor is started with one spelling, and `play` with another.
    this.#endpoint = socketOf(endpoint);
    this.directory = join(directory, serverId(endpoint));
  }

  /** Where the supervisor listens, so that there is one. */
  get socketPath(): string {
    return join(this.directory, "supervisor.sock");
  }

  get logPath(): string {
    return join(this.directory, "supervisor.log");
  }

  /** Each workload once. Reports a file that cannot be read, and leaves it out. */
  async list(report: (line: string) => void): Promise<readonly FoundPlay[]> {
    const taken = new Set<string>();
    const plays: FoundPlay[] = [];
    for (const { storedAt: _, ...play } of await this.#all(report)) {
      const workloads = play.workloads.filter((name) => !taken.has(name));
      for (const name of workloads) taken.add(name);
      if (workloads.length > 0)
        plays.push({ ...play, workloads, version: [play.version, ...workloads].join("\n") });
    }
    return plays.reverse();
  }

  /** Takes the workloads from all earlier plays, in one step. Answers the id. */
  async save(play: StoredPlay): Promise<string> {
    const newest = (await this.#all(() => undefined))[0]?.storedAt ?? 0;
    const storedAt = Math.max(Date.now(), newest + 1); // The clock may have been set back.
    const text = JSON.stringify({ version: formatVersion, endpoint: this.#endpoint, ...play, storedAt });
    if (Buffer.byteLength(text) > limitBytes)
      throw new ShimError("exhausted", `keep the play: its files have more than ${limitBytes} bytes`);
    const id = `${playPrefix}${randomUUID()}.json`;
    await this.#write(id, text);
    // From here on the earlier ones do not count; this only removes what nothing needs.
    await this.#release(
      new Set(play.workloads),
      (other) => other.storedAt < storedAt,
      () => undefined,
    );
    return id;
  }

  /** Takes workloads from all plays. A play that has none any more is gone. Answers whether one had any. */
  release(names: ReadonlySet<string>, report: (line: string) => void): Promise<boolean> {
    return this.#release(names, () => true, report);
  }

  /** With what earlier plays had of it. */
  async remove(id: string): Promise<void> {
    const play = (await this.#all(() => undefined)).find((one) => one.id === id);
    if (play === undefined) return;
    const isMeant = (other: DatedPlay): boolean => other.id === id || other.storedAt < play.storedAt;
    await this.#release(new Set(play.workloads), isMeant, () => undefined);
  }

  async #release(
    names: ReadonlySet<string>,
    isMeant: (play: DatedPlay) => boolean,
    report: (line: string) => void,
  ): Promise<boolean> {
    let hasReleased = false;
    for (const play of (await this.#all(report)).filter(isMeant)) {
      const released = play.workloads.filter((name) => names.has(name));
      if (released.length > 0) hasReleased = true;
      if (released.length === play.workloads.length) await rm(join(this.directory, play.id), { force: true });
      else for (const name of released) await this.#write(releasedFile(play.id, name), "");
    }
    await this.#sweep();
    return hasReleased;
  }

  /** Removes plays without workloads, and what was taken from plays that are gone. */
  async #sweep(): Promise<void> {
    // Another process may have taken the rest of a play.
    for (const { id, workloads } of await this.#all(() => undefined))
      if (workloads.length === 0) await rm(join(this.directory, id), { force: true });
    const names = await namesIn(this.directory);
    for (const name of names) {
      const [, id] = /^(play-[0-9a-f-]{36})\.without-/.exec(name) ?? [];
      if (id !== undefined && !names.includes(`${id}.json`))
        await rm(join(this.directory, name), { force: true });
    }
  }

  async #write(name: string, text: string): Promise<void> {
    await writeFileAtomically(join(this.directory, name), text, forRootAlone);
  }

  /** The last one first; also those that have no workloads any more. */
  async #all(report: (line: string) => void): Promise<readonly DatedPlay[]> {
    const names = await namesIn(this.directory);
    const released = new Set(names);
    const plays: DatedPlay[] = [];
    for (const id of names.filter((name) => /^play-[0-9a-f-]{36}\.json$/.test(name))) {
      const path = join(this.directory, id);
      try {
        const play = await this.#read(path);
        const workloads = play.workloads.filter((name) => !released.has(releasedFile(id, name)));
        plays.push({ ...play, id, workloads });
      } catch (error) {
        if (hasCode(error, "ENOENT")) continue; // Another process has removed it meanwhile.
        report(
          `${path}: ${messageOf(error)}: damaged, or of another version; play the files again, and remove it`,
        );
      }
    }
    return plays.sort((left, right) => right.storedAt - left.storedAt || (left.id < right.id ? 1 : -1));
  }

  async #read(path: string): Promise<Omit<DatedPlay, "id">> {
    const { size, mtimeMs, ino } = await stat(path);
    if (size > limitBytes) throw new ShimError("exhausted", `has more than ${limitBytes} bytes`);
    const play = parseStored(await readFile(path, "utf8"), readPlay);
    const { version: _, endpoint: _endpoint, storedAt = 0, ...stored } = play;
    return { ...stored, storedAt, version: `${ino} ${mtimeMs} ${size}` };
  }
}

interface DatedPlay extends FoundPlay {
  /** Milliseconds since 1970, and later than that of all plays that were there. */
  readonly storedAt: number;
}

/** The file whose presence says that the play has the workload no more. */
function releasedFile(id: string, workload: string): string {
  return releasedPrefix(id) + createHash("sha256").update(workload).digest("hex").slice(0, 32);
}

function releasedPrefix(id: string): string {
  return `${id.slice(0, -".json".length)}.without-`;
}

/** `default Deployment/web` */
export function workloadName({ namespace, kind, name }: ObjectKey & Owner): string {
  return `${namespace} ${kind}/${name}`;
}

/** Names of all that makes pods, also of those that want none now: the supervisor has to know. */
export function namesOf({
  pods,
  jobs,
  cronJobs,
  withoutPods = [],
}: Pick<Workloads, "pods" | "jobs" | "cronJobs"> &
  Partial<Pick<Workloads, "withoutPods">>): ReadonlySet<string> {
  return new Set([
    ...pods.map(nameOfPod),
    ...jobs.map(nameOfJob),
    ...cronJobs.map(({ job }) => nameOfJob(job)),
    ...withoutPods.map(workloadName),
  ]);
}

/** The same of what `--down` removes. */
export function namesToRemove({ pods, owners }: Pick<Removal, "pods" | "owners">): ReadonlySet<string> {
  return new Set([
    ...pods.map(({ key }) => workloadName({ ...key, kind: "Pod" })),
    ...owners.map(workloadName),
  ]);
}

/** What of `workloads` has one of the names. */
export function withNames<T extends Pick<Workloads, "pods" | "jobs" | "cronJobs">>(
  workloads: T,
  names: ReadonlySet<string>,
): T {
  return {
    ...workloads,
    pods: workloads.pods.filter((pod) => names.has(nameOfPod(pod))),
    jobs: workloads.jobs.filter((job) => names.has(nameOfJob(job))),
    cronJobs: workloads.cronJobs.filter(({ job }) => names.has(nameOfJob(job))),
  };
}

function nameOfPod({ key: { namespace, name }, owner }: Workloads["pods"][number]): string {
  return workloadName({ namespace, ...(owner ?? { kind: "Pod", name }) });
}

function nameOfJob({ namespace, template }: Workloads["jobs"][number]): string {
  return workloadName({ namespace, ...template.owner });
}
