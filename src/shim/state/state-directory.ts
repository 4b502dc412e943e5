/** The layout of the state directory, and the claim that only one instance uses it. */
import { chmod, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { ownTemporaryName, sweepTemporaryFiles } from "../../lib/files/atomic-file.js";
import { createDirectory, namesIn } from "../../lib/files/directories.js";
import { ShimError } from "../../lib/errors.js";
import { bindUnixSocket, isServed } from "../../lib/unix-socket.js";

/** Where cri-dockerd keeps its checkpoints: pods that it made are released with them. */
export const criDockerdCheckpoints = "/var/lib/cri-dockerd/sandbox";

export interface StateDirectory {
  /** Checkpoints; the name and the content are dockershim's. */
  readonly checkpoints: string;
  readonly pods: string;
  readonly containers: string;
  /** How far each container's log is written. */
  readonly logs: string;
  readonly quarantine: string;
  /** Where the executable writes the programs that it carries; made when it does. */
  readonly programs: string;
}

const claimSocket = "instance.sock";

/** Names that this program, its set-up, dockershim and cri-dockerd create in it: docs/run/files-on-disk.md. */
const contents = new Set([
  "sandbox",
  "pods",
  "containers",
  "logs",
  "quarantine",
  "programs",
  "play",
  "engine-id",
  "pod-cidrs.json",
  claimSocket,
  "setup.json",
  "setup-packages.log",
  "dockerd.log",
  // Where the state directory is the root of a file system.
  "lost+found",
]);
/** Temporary files of killed writers. */
const temporary = /^\.(dockershim-|setup\.json\.)/;

/**
 * Creates the directory for root alone, because it shows names and addresses of pods. An existing one that
 * others can read, as dockershim made it, is closed to them, unless it has files of other programs, like
 * /tmp.
 */
export async function openStateDirectory(root: string): Promise<StateDirectory> {
  await createDirectory(root, 0o700);
  const { mode } = await stat(root);
  // A failure, as on a read-only file system, is harmless: the files have modes of their own.
  if ((mode & 0o077) !== 0 && (await isOursAlone(root))) await chmod(root, 0o700).catch(() => undefined);
  return {
    checkpoints: join(root, "sandbox"),
    pods: join(root, "pods"),
    containers: join(root, "containers"),
    logs: join(root, "logs"),
    quarantine: join(root, "quarantine"),
    programs: join(root, "programs"),
  };
}

async function isOursAlone(root: string): Promise<boolean> {
  return (await namesIn(root)).every((name) => contents.has(name) || temporary.test(name));
}

/** Whether a process has claimed it. Throws raw system errors. */
export function isStateDirectoryClaimed(root: string): Promise<boolean> {
  return isServed(join(root, claimSocket));
}

/**
 * Claims the state directory for this process until it ends or releases it, by a listening socket inside: a
 * lock file would outlive a crash. Then removes temporary files of a killed process. Throws `conflict` when
 * another instance has it.
 */
export async function claimStateDirectory(root: string): Promise<{ release(): Promise<void> }> {
  const server = createServer((socket) => socket.destroy());
  try {
    const bound = await bindUnixSocket(server, join(root, claimSocket));
    server.unref();
    // A failure is harmless here; the first write reports it.
    await sweepTemporaryFiles(root, { patterns: [ownTemporaryName] }).catch(() => undefined);
    return {
      release: async () => {
        await bound.unlink();
        await new Promise<void>((resolve) => {
          server.close(() => {
            resolve();
          });
        });
      },
    };
  } catch (error) {
    const reason = ShimError.from(error);
    throw reason.kind === "conflict"
      ? new ShimError("conflict", `another dockershim runs on the state directory "${root}"`, { path: root })
      : reason;
  }
}
