/** A container as containerd's shim of runc runs it: what the OCI runtime is to be called with, about the same container. */
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { linkAbort, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { runProgram } from "../native/run-program.js";
import { startAsChild, type StartProgram } from "../native/start-program.js";
import { isCgroupOf, ProcFiles } from "./processes/proc-files.js";

export interface TaskTarget {
  readonly containerId: string;
  /** A process of the container. */
  readonly pid: number;
}

export interface RuntimeTask {
  readonly containerId: string;
  /** The OCI specification of the container. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** The OCI runtime: a path, or a name in PATH. */
  readonly program: string;
  /** Where the OCI runtime keeps the state of its containers. */
  readonly root: string;
}

type Table = Readonly<Record<string, unknown>>;

/**
 * Found by the parent of the container's first process: containerd's shim works in the bundle of its first
 * container, beside which are those of its others. `unsupported` where that is out of reach.
 */
export async function findRuntimeTask(
  { containerId, pid }: TaskTarget,
  proc = new ProcFiles(),
): Promise<RuntimeTask> {
  const unreachable = (what: string): ShimError =>
    new ShimError("unsupported", `${what} of container "${containerId}" is out of reach on this host`, {
      containerId,
    });
  const cgroup = pid > 1 ? await proc.text(pid, "cgroup") : undefined;
  const supervisor = (await proc.stat(pid))?.parent ?? 0;
  if (cgroup === undefined || !isCgroupOf(containerId, cgroup) || supervisor <= 1)
    throw unreachable("the containerd shim");
  const bundle = proc.path(supervisor, `cwd/../${containerId}`);
  const [spec, options, cmdline, own, others] = await Promise.all([
    readTable(`${bundle}/config.json`),
    readTable(`${bundle}/options.json`),
    proc.text(supervisor, "cmdline"),
    proc.link("self", "ns/mnt"),
    proc.link(supervisor, "ns/mnt"),
  ]);
  if (spec === undefined) throw unreachable("the OCI specification");
  const { binary_name: program, root } = options ?? {};
  const words = cmdline?.split("\0") ?? [];
  const namespace = words[words.indexOf("-namespace") + 1] ?? "";
  if (typeof root !== "string" || root === "" || namespace === "" || namespace.includes("/"))
    throw unreachable("the directory of the OCI runtime");
  if (own !== others)
    throw new ShimError("unsupported", "dockershim and the engine have different mount namespaces");
  return {
    ...{ containerId, spec, root: join(root, namespace) },
    program: typeof program === "string" && program !== "" ? program : "runc",
  };
}

async function readTable(path: string): Promise<Table | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    // Told by the caller, with every other way to have none.
    return undefined;
  }
}

/** Names in the working directory, by which others read CRIU's own words. */
export const criuLog = "dump.log";
const runtimeLog = "runtime.log";
const logEndBytes = 64 * 1024;
/** For a frozen container to be thawed. */
const resumeMs = 10_000;
const limits = { input: "", stdoutBytes: 64 * 1024, stderrBytes: 4096, graceMs: 1000, deathMs: 5000 };

/**
 * Has the OCI runtime write the state of the running container into the new directory `images`, by CRIU; the
 * container runs on. Not ended by a caller that leaves: a container whose CRIU is killed may be left frozen.
 * After `timeoutMs` it is killed all the same; also when this program stops (`unavailable`), with which a service
 * manager kills it. The container is thawed then, and after every other failure: CRIU may be killed by others.
 */
export async function checkpointTask(
  task: RuntimeTask,
  { images, work, timeoutMs, signal }: CheckpointOptions,
  start: StartProgram = startAsChild,
): Promise<void> {
  const stopped = new AbortController();
  using _ = linkAbort(signal, () => {
    if (isKind(signal.reason, "unavailable")) stopped.abort(signal.reason);
  });
  const { program } = task;
  const log = ["--log", join(work, runtimeLog)];
  const words = ["checkpoint", "--image-path", images, "--work-path", work, "--leave-running"];
  try {
    const { exitCode, stderr } = await run(task, { log, words, timeoutMs }, start, stopped.signal);
    if (exitCode === 0) return;
    const [reason, criu] = [stderr.trim().split("\n").at(-1) ?? "", await criuError(work)];
    throw new ShimError(
      criu.includes("No space left on device") ? "exhausted" : "unknown",
      [`${program} checkpoint`, reason, criu].filter((part) => part !== "").join(": "),
    );
  } catch (error) {
    if (hasCode(error, "ENOENT")) throw new ShimError("unsupported", `no program "${program}" here`);
    const failure =
      error instanceof ShimError ? error : new ShimError("unknown", `${program}: ${messageOf(error)}`);
    throw await thawed(task, failure, start);
  }
}

/** The failure of a checkpoint, which also says it where the container could not be thawed after it. */
async function thawed(task: RuntimeTask, failure: ShimError, start: StartProgram): Promise<ShimError> {
  try {
    await resumeTask(task, start);
    return failure;
  } catch (error) {
    const message = `${failure.message}; the container may be frozen: ${messageOf(error)}`;
    return new ShimError(failure.kind, message, failure.fields, { cause: error });
  }
}

/** Lets a frozen container run on; one that is not frozen stays as it is. */
export async function resumeTask(task: RuntimeTask, start: StartProgram = startAsChild): Promise<void> {
  const { exitCode, stderr } = await run(task, { words: ["resume"], timeoutMs: resumeMs }, start);
  if (exitCode === 0 || /not paused/i.test(stderr)) return;
  const reason = stderr.trim().split("\n").at(-1) ?? "";
  throw new ShimError("unknown", `${task.program} resume: ${reason}`, { containerId: task.containerId });
}

interface RunOptions {
  /** Options before the command. */
  readonly log?: readonly string[];
  readonly words: readonly string[];
  readonly timeoutMs: number;
}

function run(
  { containerId, program, root }: RuntimeTask,
  { log = [], words, timeoutMs }: RunOptions,
  start: StartProgram,
  parent?: AbortSignal,
): ReturnType<typeof runProgram> {
  return withDeadline(parent, timeoutMs, `checkpoint container "${containerId}"`, (signal) =>
    runProgram(
      start,
      {
        program,
        words: ["--root", root, ...log, ...words, containerId],
        environment: { PATH: process.env["PATH"] },
      },
      { ...limits, signal },
    ),
  );
}

export interface CheckpointOptions {
  /** To be made. */
  readonly images: string;
  /** Takes logs. */
  readonly work: string;
  readonly timeoutMs: number;
  /** Of the call. */
  readonly signal: AbortSignal;
}

/** CRIU's last error but for the one that says that there were others; `""` without any. */
async function criuError(work: string): Promise<string> {
  const text = await endOf(join(work, criuLog)).catch(() => "");
  const errors = text
    .split("\n")
    .filter((line) => line.includes("Error (") && !line.includes("Dumping FAILED"));
  return errors.at(-1)?.replace(/^\(\d+\.\d+\)\s*/, "") ?? "";
}

async function endOf(path: string): Promise<string> {
  await using file = await open(path);
  const { size } = await file.stat();
  const length = Math.min(size, logEndBytes);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
  return buffer.toString("utf8", 0, bytesRead);
}
