/** Work that is killed at any place: each step leaves the node as it was or as it is to be, and may be repeated. */
import { createServer } from "node:net";
import { isKind, ShimError } from "../lib/errors.js";
import { bindUnixSocket } from "../lib/unix-socket.js";

/** Of the command that changes this node now. */
export const installSocket = "/run/dockershim-install.sock";

export interface Step {
  /** For people: `write /usr/bin/dockershim`. Empty: not worth a line. */
  readonly text: string;
  readonly run: () => Promise<unknown>;
}

/** What a command will do, and what it leaves alone, in lines. */
export interface Plan {
  readonly steps: readonly Step[];
  /** `keep /etc/dockershim/config.yaml: it was edited` */
  readonly kept: readonly string[];
}

export function planLines({ steps, kept }: Plan): readonly string[] {
  return [...steps.map(({ text }) => text), ...kept].filter((line) => line !== "").map((line) => `  ${line}`);
}

/** `after` is called after each step; for tests. */
export async function runSteps(
  steps: readonly Step[],
  after: (step: Step) => void = () => undefined,
): Promise<void> {
  for (const step of steps) {
    await step.run();
    after(step);
  }
}

/** Runs `work` while no other one runs with this socket. `conflict` when one does. */
export async function alone<T>(socket: string, work: () => Promise<T>): Promise<T> {
  const server = createServer((connection) => connection.destroy());
  let bound;
  try {
    bound = await bindUnixSocket(server, socket);
  } catch (error) {
    if (!isKind(error, "conflict")) throw error;
    throw new ShimError("conflict", "another install, uninstall or wipe runs; wait for its end");
  }
  server.unref();
  try {
    return await work();
  } finally {
    await bound.unlink();
    server.close();
  }
}
