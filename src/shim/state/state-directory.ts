/** The state directory: its layout, and that only one shim uses it. */
import { chmod, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { ownTemporaryName, sweepTemporaryFiles } from "../lib/files/atomic-file.js";
import { createDirectory, namesIn } from "../lib/files/directories.js";
import { ShimError } from "../lib/errors.js";
import { bindUnixSocket } from "../lib/unix-socket.js";

export interface StateDirectory {
  /** Checkpoints; the name and the content are dockershim's. */
  readonly checkpoints: string;
  readonly pods: string;
  readonly containers: string;
  /** How far each container's log is written. */
  readonly logs: string;
  readonly quarantine: string;
}

/** What this program, its set-up and its ancestors have in it: docs/files-on-disk.md. */
const contents = new Set([
  ...["sandbox", "pods", "containers", "logs", "quarantine", "play", "engine-id", "pod-cidrs.json"],
  ...["instance.sock", "setup.json", "setup-packages.log", "dockerd.log"],
  // The root of a file system of its own.
  "lost+found",
]);
/** Of files that were being written when their writer was killed. */
const temporary = /^\.(dockershim-|setup\.json\.)/;

/**
 * `root` is private: the names of pods and their addresses are nobody's business. One that others have made readable, as
 * dockershim did, is closed to them, unless somebody else has files in it, as in /tmp.
 */
export async function openStateDirectory(root: string): Promise<StateDirectory> {
  await createDirectory(root, 0o700);
  const { mode } = await stat(root);
  // Where it stays as it is, also on a read-only file system, what is in it has modes of its own.
  if ((mode & 0o077) !== 0 && (await isOursAlone(root))) await chmod(root, 0o700).catch(() => undefined);
  return {
    checkpoints: join(root, "sandbox"),
    pods: join(root, "pods"),
    containers: join(root, "containers"),
    logs: join(root, "logs"),
    quarantine: join(root, "quarantine"),
  };
}

async function isOursAlone(root: string): Promise<boolean> {
  return (await namesIn(root)).every((name) => contents.has(name) || temporary.test(name));
}

/**
 * Claims the state directory for this process until it ends or releases it, by a listening socket inside: a
 * lock file would outlive a crash. What a killed predecessor was writing is removed then. Throws `conflict`
 * when another instance has it.
 */
export async function claimStateDirectory(root: string): Promise<{ release(): Promise<void> }> {
  const server = createServer((socket) => socket.destroy());
  try {
    const bound = await bindUnixSocket(server, join(root, "instance.sock"));
    server.unref();
    // Those of files in the root itself; a failure costs nothing, and is met again at the first write.
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
