/**
 * What plays have left to the supervisor of a CRI socket: the texts of their files and how they are read. One
 * file for each play, which only root may read: Secrets are in it.
 */
import { createHash, randomUUID } from "node:crypto";
import { readFile, readdir, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { ShimError, messageOf } from "../shim/lib/errors.js";
import { writeFileAtomically } from "../shim/lib/files/atomic-file.js";
import { hasCode } from "../shim/lib/files/file-errors.js";
import type { ManifestFile } from "./manifests/documents.js";
import {
  type Problem,
  type TypeOf,
  boolean,
  integer,
  list,
  mandatory,
  object,
  string,
} from "./manifests/schema.js";
import type { Owner } from "./manifests/manifest.js";
import type { Doomed, ObjectKey, Workloads } from "./manifests/workloads.js";

const formatVersion = 1;
/** The files of a play have at most 64 MiB each. */
const limitBytes = 256 * 1024 ** 2;

const readPlay = object({
  version: mandatory(integer(formatVersion, formatVersion)),
  endpoint: mandatory(string()),
  files: mandatory(list(object({ name: mandatory(string()), text: mandatory(string()) }))),
  replicas: mandatory(list(string())),
  schedule: mandatory(boolean()),
  localVolumes: mandatory(boolean()),
  fast: mandatory(boolean()),
  workloads: mandatory(list(string())),
});

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
  /** Of this endpoint. */
  readonly directory: string;

  constructor(directory: string, endpoint: string) {
    // A supervisor is started with one spelling, and `play` with another.
    this.#endpoint = endpoint.replace(/^unix:\/\//, "").replace(/^\/var\/run\//, "/run/");
    const name = createHash("sha256").update(this.#endpoint).digest("hex").slice(0, 12);
    this.directory = join(directory, name);
  }

  /** Where the supervisor listens, so that there is one. */
  get socketPath(): string {
    return join(this.directory, "supervisor.sock");
  }

  get logPath(): string {
    return join(this.directory, "supervisor.log");
  }

  /** Reports a file that cannot be read, and leaves it out. */
  async list(report: (line: string) => void): Promise<readonly FoundPlay[]> {
    const plays: FoundPlay[] = [];
    for (const name of await this.#names()) {
      const path = join(this.directory, name);
      try {
        const play = await this.#read(path);
        if (play !== undefined) plays.push({ ...play, id: name });
      } catch (error) {
        if (hasCode(error, "ENOENT")) continue; // Another process has removed it meanwhile.
        report(
          `${path}: ${messageOf(error)}: damaged, or of another version; play the files again, and remove it`,
        );
      }
    }
    return plays;
  }

  async save(play: StoredPlay): Promise<void> {
    await this.#write(`${playPrefix}${randomUUID()}.json`, play);
  }

  async #write(id: string, play: StoredPlay): Promise<void> {
    const text = JSON.stringify({ version: formatVersion, endpoint: this.#endpoint, ...play });
    if (Buffer.byteLength(text) > limitBytes)
      throw new ShimError("exhausted", `keep the play: its files have more than ${limitBytes} bytes`);
    await writeFileAtomically(join(this.directory, id), text, {
      mode: 0o600,
      temporaryPrefix: ".play-",
      directoryMode: 0o700,
    });
  }

  /** Takes workloads from all plays. A play that has none any more is gone. Answers whether one had any. */
  async release(names: ReadonlySet<string>, report: (line: string) => void): Promise<boolean> {
    let hasReleased = false;
    for (const { id, version: _, ...play } of await this.list(report)) {
      const workloads = play.workloads.filter((name) => !names.has(name));
      if (workloads.length === play.workloads.length) continue;
      hasReleased = true;
      if (workloads.length === 0) await this.remove(id);
      else await this.#write(id, { ...play, workloads });
    }
    return hasReleased;
  }

  async remove(id: string): Promise<void> {
    await rm(join(this.directory, id), { force: true });
  }

  /** The supervisor takes the pods of all plays that have one of these workloads again. */
  async touch(names: ReadonlySet<string>): Promise<void> {
    const now = new Date();
    for (const { id, workloads } of await this.list(() => undefined)) {
      if (!workloads.some((name) => names.has(name))) continue;
      // Its last pod may have ended meanwhile.
      await utimes(join(this.directory, id), now, now).catch(() => undefined);
    }
  }

  async #names(): Promise<readonly string[]> {
    try {
      return (await readdir(this.directory)).filter((name) => /^play-[0-9a-f-]{36}\.json$/.test(name)).sort();
    } catch (error) {
      if (hasCode(error, "ENOENT")) return [];
      throw error;
    }
  }

  async #read(path: string): Promise<Omit<FoundPlay, "id"> | undefined> {
    const { size, mtimeMs, ino } = await stat(path);
    if (size > limitBytes) throw new ShimError("exhausted", `has more than ${limitBytes} bytes`);
    const problems: Problem[] = [];
    const play: TypeOf<typeof readPlay> | undefined = readPlay(
      JSON.parse(await readFile(path, "utf8")),
      "",
      problems,
    );
    const [problem] = problems.filter(({ kind }) => kind !== "passedOver");
    if (play === undefined || problem !== undefined)
      throw new ShimError("invalid", `${problem?.path ?? ""} ${problem?.reason ?? ""}`.trim());
    const { version: _, endpoint: _endpoint, ...stored } = play;
    return { ...stored, version: `${ino} ${mtimeMs} ${size}` };
  }
}

/** `default Deployment/web` */
export function workloadName({ namespace, kind, name }: ObjectKey & Owner): string {
  return `${namespace} ${kind}/${name}`;
}

/** Names of all that makes pods. */
export function namesOf({
  pods,
  jobs,
  cronJobs,
}: Pick<Workloads, "pods" | "jobs" | "cronJobs">): ReadonlySet<string> {
  return new Set([
    ...pods.map(nameOfPod),
    ...jobs.map(nameOfJob),
    ...cronJobs.map(({ job }) => nameOfJob(job)),
  ]);
}

/** The same of what `--down` removes. */
export function doomedNames({ pods, owners }: Pick<Doomed, "pods" | "owners">): ReadonlySet<string> {
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
