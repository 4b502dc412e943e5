/** The layout of the state directory, and the claim that only one instance uses it. */
import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { join } from "node:path";
import { ownTemporaryName, sweepTemporaryFiles } from "../../lib/files/atomic-file.js";
import { checkpointsOf } from "../../domain/docker-root.js";
import { createOwnDirectory } from "../../lib/files/directories.js";
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

/**
 * Creates the directory for root alone. An existing one keeps its mode: other programs may use it, too. What
 * is made in it has modes of its own.
 */
export async function openStateDirectory(root: string): Promise<StateDirectory> {
  await createOwnDirectory(root, 0o700);
  return {
    checkpoints: checkpointsOf(root),
    pods: join(root, "pods"),
    containers: join(root, "containers"),
    logs: join(root, "logs"),
    quarantine: join(root, "quarantine"),
    programs: join(root, "programs"),
  };
}

/** Tells a state directory from others of the same engine: in labels, and in the name of a socket's directory. */
export function stateDirectoryId(stateDir: string): string {
  return createHash("sha256").update(stateDir).digest("hex").slice(0, 16);
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
    try {
      sweepTemporaryFiles(root, { patterns: [ownTemporaryName] });
    } catch {
      // A failure is harmless here; the first write reports it.
    }
    return {
      release: async () => {
        await bound.unlink();
        await new Promise<void>((resolve) => {
          server.close(() => resolve());
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
