/** What of the engine's host this program can reach, job by job. Proven by src/shim/host/reach. */

export const reachJobs = ["files", "processes", "cgroups", "networkNamespaces", "hostPaths"] as const;
export type ReachJob = (typeof reachJobs)[number];

export type JobReach = { readonly reached: true } | NotReached;

export interface NotReached {
  readonly reached: false;
  /** The proof is still to come: a container has to run, or the engine has to answer. */
  readonly pending?: true;
  readonly reason: string;
  /** What pods lack without it, one sentence. */
  readonly lost: string;
}

/** `--engine-reach`: `auto` proves, `host` wants all proofs, `remote` uses nothing of the host. */
export type ReachMode = "auto" | "host" | "remote";

export type ReachedJobs = Readonly<Record<ReachJob, JobReach>>;

export interface Reach {
  readonly mode: ReachMode;
  /** Whether files or processes of the engine's host are proven to be in reach. */
  readonly host: boolean;
  readonly jobs: ReachedJobs;
  /** By which a client of the CRI finds out whether it sees the same files as this program. */
  readonly directory?: SeenDirectory;
}

export interface SeenDirectory {
  readonly path: string;
  /** As `directoryId` of lib makes it. */
  readonly id: string;
}

/** The table of docs/run/remote.md, which a test compares. */
export const reachTable: Readonly<
  Record<ReachJob, { readonly title: string; readonly proof: string; readonly lost: string }>
> = {
  files: {
    title: "files",
    proof: "the engine finds a directory that this program makes below Docker's data root",
    lost: "Logs come through the API, DNS settings are the engine's, image and layer sizes are the engine's count.",
  },
  processes: {
    title: "processes",
    proof: "the process of a running container has that container's cgroup",
    lost: "A timed out exec leaves its processes behind, and OOM scores are not clamped.",
  },
  cgroups: {
    title: "cgroups",
    proof: "the cgroup directory of a running container is mounted here",
    lost: "Limits that Docker has no field for are refused, and statistics come through the API.",
  },
  networkNamespaces: {
    title: "network namespaces",
    proof: "the network namespace of a running container can be opened here",
    lost: "Only the network plugin no-op works, and port-forward needs the built-in pause image.",
  },
  hostPaths: {
    title: "host paths",
    proof: "the engine finds a directory that this program makes in its state directory",
    lost: "Host paths are those of the engine's host: files of this host cannot be mounted.",
  },
};

export function notReached(job: ReachJob, reason: string): NotReached {
  return { reached: false, reason, lost: reachTable[job].lost };
}

export function pendingReach(job: ReachJob, reason: string): NotReached {
  return { ...notReached(job, reason), pending: true };
}

/** The same answer for each job. */
export function sameForAll(answer: (job: ReachJob) => JobReach): ReachedJobs {
  return Object.fromEntries(reachJobs.map((job) => [job, answer(job)])) as ReachedJobs;
}

export function reachOf(mode: ReachMode, jobs: ReachedJobs, directory?: SeenDirectory): Reach {
  const host = jobs.files.reached || jobs.processes.reached;
  return { mode, host, jobs, ...(directory === undefined ? {} : { directory }) };
}

/** Whether these jobs are to be tried. While a proof is pending they are: each use checks its own process. */
export function tries({ jobs }: Pick<Reach, "jobs">, ...wanted: readonly ReachJob[]): boolean {
  return wanted.every((job) => {
    const found = jobs[job];
    return found.reached || found.pending === true;
  });
}

/** The jobs without a proof, by title and reason; a proof that is still to come is no failure. */
function failedProofs({ jobs }: Pick<Reach, "jobs">): readonly string[] {
  return reachJobs.flatMap((job) => {
    const found = jobs[job];
    return found.reached || found.pending === true ? [] : [`${reachTable[job].title}: ${found.reason}`];
  });
}

/** One line: what is in reach, what is not known yet, and what is not. */
export function reachLine({ mode, jobs }: Reach): string {
  const titles = (isMeant: (found: JobReach) => boolean): string =>
    reachJobs
      .filter((job) => isMeant(jobs[job]))
      .map((job) => reachTable[job].title)
      .join(", ");
  const reached = titles((found) => found.reached);
  const pending = titles((found) => !found.reached && found.pending === true);
  const missing = titles((found) => !found.reached && found.pending !== true);
  if (mode === "remote") return "nothing of the engine's host (--engine-reach=remote)";
  return [
    reached === "" ? "no job proven" : reached,
    ...(pending === "" ? [] : [`not known yet: ${pending}`]),
    ...(missing === "" ? [] : [`out of reach: ${missing} (docs/run/remote.md)`]),
  ].join("; ");
}

/**
 * Whether the networks of pods are on this host, as far as is known: a plugin may then work on it. A pending
 * proof is enough only where the engine's files have proven the host.
 */
export function hasNetworks(reach: Reach): boolean {
  return reach.host && tries(reach, "networkNamespaces");
}

/** What `--engine-reach=host` asks for and is not proven; undefined when nothing is missing. */
export function reachProblem(reach: Reach): string | undefined {
  const failed = reach.mode === "host" ? failedProofs(reach) : [];
  if (failed.length === 0) return undefined;
  return `--engine-reach=host: the engine's host is out of reach: ${failed.join("; ")}`;
}

/** The jobs, one a line; below those that are out of reach the reason and what is lost. */
export function describeReach({ jobs }: Pick<Reach, "jobs">): string {
  const width = Math.max(...reachJobs.map((job) => reachTable[job].title.length));
  const indent = " ".repeat(width + 2);
  return reachJobs
    .map((job) => {
      const found = jobs[job];
      const title = reachTable[job].title.padEnd(width);
      if (found.reached) return `${title}  in reach: ${reachTable[job].proof}\n`;
      const [word, loss] =
        found.pending === true
          ? ["not known yet", `if out of reach: ${found.lost}`]
          : ["out of reach", found.lost];
      return `${title}  ${word}: ${found.reason}\n${indent}${loss}\n`;
    })
    .join("");
}
