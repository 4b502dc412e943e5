/** Finds the processes of the engine behind the endpoint, and of no other engine on this host. */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ProcFiles } from "./proc-files.js";
import { listensOn, pathSeenBy } from "../unix-listeners.js";
import { orAbort, withDeadline } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";

export interface EngineProcess {
  readonly pid: number;
  readonly command: "dockerd" | "containerd";
  /** Tells it from a later process with its pid. */
  readonly startTime: string;
}

const defaultPidFile = "/var/run/docker.pid";
const defaultContainerdSocket = "/run/containerd/containerd.sock";
const defaultConfigFile = "/etc/docker/daemon.json";
const defaultExecRoot = "/var/run/docker";

/**
 * The dockerd that listens on `socketPath`; undefined when there is no proof for any process, or for several
 * and no pid file names one. Only services of this node are considered, no processes of containers.
 */
export async function findDockerd(
  proc: ProcFiles,
  socketPath: string,
  pidFiles: readonly string[] = [join(dirname(socketPath), "docker.pid"), defaultPidFile],
): Promise<EngineProcess | undefined> {
  const listens = async (pid: number): Promise<EngineProcess | undefined> => {
    const found = await identify(proc, pid, "dockerd");
    // Asked last, so that the process that is proven is the one whose start time is known.
    return found !== undefined && (await listensOn(proc, pid, socketPath)) ? found : undefined;
  };
  for (const file of new Set(pidFiles)) {
    const named = await listens(await readPid(file));
    if (named !== undefined) return named;
  }
  const [only, ...others] = await proc.mapDefined(await proc.pids(), listens);
  return others.length === 0 ? only : undefined;
}

/**
 * The containerd of a dockerd: its child, or else the process that listens where its flags and its
 * configuration file say, or where a system's containerd does. Undefined also when dockerd is its own
 * containerd (feature embedded-containerd): it then connects to no other, whatever `--containerd` names.
 */
export async function findContainerd(
  proc: ProcFiles,
  dockerd: EngineProcess,
): Promise<EngineProcess | undefined> {
  const all = await proc.processes();
  const children = all.filter(({ parent }) => parent === dockerd.pid).map(({ pid }) => pid);
  const [child, ...siblings] = await proc.mapDefined(children, (pid) => identify(proc, pid, "containerd"));
  if (child !== undefined) return siblings.length === 0 ? child : undefined;
  const { own, wanted } = await containerdSocketsOf(proc, dockerd);
  const embedded = await pathSeenBy(proc, dockerd.pid, own);
  if (embedded !== undefined && (await listensOn(proc, dockerd.pid, embedded))) return undefined;
  const socket = await pathSeenBy(proc, dockerd.pid, wanted);
  if (socket === undefined) return undefined;
  const [only, ...others] = await proc.mapDefined(all, async ({ pid }) => {
    const found = await identify(proc, pid, "containerd");
    return found !== undefined && (await listensOn(proc, pid, socket)) ? found : undefined;
  });
  return others.length === 0 ? only : undefined;
}

async function identify(
  proc: ProcFiles,
  pid: number,
  command: EngineProcess["command"],
): Promise<EngineProcess | undefined> {
  if (pid <= 1 || (await proc.command(pid)) !== command || !(await isNodeService(proc, pid)))
    return undefined;
  const stat = await proc.stat(pid);
  return stat === undefined ? undefined : { pid, command, startTime: stat.startTime };
}

/** 0 when the file has none. */
async function readPid(file: string): Promise<number> {
  const text = await readFile(file, "utf8").catch(() => "");
  return /^\d{1,10}$/.test(text.trim()) ? Number(text) : 0;
}

/** `own` is of a containerd that dockerd starts or contains, `wanted` of one that it is told to use. */
async function containerdSocketsOf(
  proc: ProcFiles,
  { pid }: EngineProcess,
): Promise<{ readonly own: string; readonly wanted: string }> {
  const words = ((await proc.text(pid, "cmdline")) ?? "").split("\0");
  const configFile = await pathSeenBy(proc, pid, flagValue(words, "config-file") ?? defaultConfigFile);
  const configured = await readConfiguration(configFile);
  const setting = (name: string): string | undefined =>
    flagValue(words, name) ?? textOf(configured.get(name));
  const execRoot = setting("exec-root") ?? defaultExecRoot;
  return {
    own: join(execRoot, "containerd", "containerd.sock"),
    wanted: setting("containerd") ?? defaultContainerdSocket,
  };
}

/** `--name=value` or `--name value`. */
function flagValue(words: readonly string[], name: string): string | undefined {
  const flag = `--${name}`;
  const index = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  const word = words[index];
  return word === flag ? words[index + 1] : word?.slice(flag.length + 1);
}

async function readConfiguration(path: string | undefined): Promise<ReadonlyMap<string, unknown>> {
  if (path === undefined) return new Map();
  try {
    const config: unknown = JSON.parse(await readFile(path, "utf8"));
    return new Map(Object.entries(config ?? {}));
  } catch {
    // The engine runs without one, or read another version of it.
    return new Map();
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/**
 * Whether the process can be a service of this node: in this program's own PID namespace, of root or of the
 * user that this program runs as, and in no cgroup of a container or pod that this program is not in itself.
 * A pod in the host's PID namespace can call its processes what it likes, but cannot leave its cgroup.
 */
async function isNodeService(proc: ProcFiles, pid: number): Promise<boolean> {
  const [here, there] = await Promise.all([proc.link("self", "ns/pid"), proc.link(pid, "ns/pid")]);
  if (here === undefined || here !== there) return false;
  const [ownCgroup, cgroup] = await Promise.all([proc.text("self", "cgroup"), proc.text(pid, "cgroup")]);
  if (cgroup === undefined) return false;
  const own = new Set(containersIn(ownCgroup ?? ""));
  if (containersIn(cgroup).some((container) => !own.has(container))) return false;
  const [ownUser, user] = await Promise.all([userOf(proc, "self"), userOf(proc, pid)]);
  return user !== undefined && (user === 0 || user === ownUser);
}

/** Parts that all drivers and runtimes put into cgroup paths of containers, and kubelets of pods. */
function containersIn(procCgroup: string): readonly string[] {
  return procCgroup.match(/[0-9a-f]{64}|kubepods/g) ?? [];
}

/** Undefined for setuid programs. The owner of /proc's files does not tell: some are root's. */
async function userOf(proc: ProcFiles, pid: number | "self"): Promise<number | undefined> {
  const id = /^Uid:\s+(\d+)\s+\1\s/m.exec((await proc.text(pid, "status")) ?? "")?.[1];
  return id === undefined ? undefined : Number(id);
}

/** One look at a time, for at most the limit: one that hangs holds a thread of Node's pool. */
export class LimitedLook {
  #isUnderWay = false;

  constructor(
    /** For errors, as `look for the engine's processes`. */
    private readonly action: string,
    private readonly limitMs: number,
  ) {}

  /** The result of `look`; `timeout` after the limit, `unavailable` while an earlier one hangs. */
  async run<T>(signal: AbortSignal | undefined, look: () => Promise<T>): Promise<T> {
    if (this.#isUnderWay) {
      throw new ShimError("unavailable", `${this.action}: an earlier look has not ended`);
    }
    return withDeadline(signal, this.limitMs, this.action, (linked) => {
      this.#isUnderWay = true;
      const looking = look().finally(() => {
        this.#isUnderWay = false;
      });
      looking.catch(() => undefined); // It may fail after the deadline.
      return orAbort(looking, linked);
    });
  }
}
