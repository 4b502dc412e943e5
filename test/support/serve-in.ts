/** Servers inside of pods, without a tool in the pod's image. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { onEngineHost } from "./engine-host.js";

/**
 * Starts `script` of Node.js in a network namespace: that of a process of the engine's host, or the one of a path. It must
 * print a line when it is ready.
 */
export async function serveIn(namespace: number | string, script: string): Promise<AsyncDisposable> {
  const path = typeof namespace === "string" ? namespace : onEngineHost(`/proc/${namespace}/ns/net`);
  const child = spawn("nsenter", [`--net=${path}`, process.execPath, "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const failed = once(child, "exit").then(() => {
    throw new Error("the servers of the test ended");
  });
  failed.catch(() => undefined); // Not awaited after the start.
  await Promise.race([once(child.stdout, "data"), failed]);
  return {
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
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
