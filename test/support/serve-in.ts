/** Servers inside of pods, without a tool in the pod's image. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { onEngineHost } from "./engine-host.js";

/**
 * Starts `script` of Node.js in the network namespace of a process of the engine's host; it must print a line when it is
 * ready.
 */
export async function serveIn(pid: number, script: string): Promise<AsyncDisposable> {
  const namespace = `--net=${onEngineHost(`/proc/${pid}/ns/net`)}`;
  const child = spawn("nsenter", [namespace, process.execPath, "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const failed = once(child, "exit").then(() => {
    throw new Error("the servers of the test ended");
  });
  failed.catch(() => undefined); // Not awaited after the start.
  await Promise.race([once(child.stdout, "data"), failed]);
  return {
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

export function hasNsenter(): boolean {
  try {
    execFileSync("nsenter", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
