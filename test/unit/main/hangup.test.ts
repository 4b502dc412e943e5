import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { programWords } from "../../support/program-words.js";
import { until } from "../../support/wait.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** A client waits for a CRI server that never answers. `work` has its pid. */
async function whileWaiting(
  begin: (command: string) => ChildProcess,
  work: (child: ChildProcess, pid: number) => Promise<void>,
): Promise<void> {
  await using at = await temporaryDirectory();
  const server = createServer((socket) => socket.on("error", () => undefined).resume());
  const path = join(at.path, "cri.sock");
  server.listen(path);
  const words = programWords(["pod", "ps"]);
  const child = begin(`echo $$; exec ${words.join(" ")} --endpoint=unix://${path}`);
  let output = "";
  child.stdout?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  let pid = 0;
  try {
    await once(server, "connection");
    pid = Number(/\d+/.exec(output)?.[0]);
    await work(child, pid);
  } finally {
    child.kill("SIGKILL");
    if (pid > 0 && existsSync(`/proc/${pid}`)) process.kill(pid, "SIGKILL");
    server.close();
  }
}

test("a client of a CRI server ends when its terminal is closed", async () => {
  const inTerminal = (command: string): ChildProcess => spawn("script", ["-qec", command, "/dev/null"]);
  await whileWaiting(inTerminal, async (terminal, pid) => {
    terminal.kill("SIGKILL");
    await until("the client has ended", () => !existsSync(`/proc/${pid}`));
  });
});

test("a client without a terminal, as under nohup, goes on after SIGHUP, and has its own name for ps", async () => {
  const alone = (command: string): ChildProcess => spawn("sh", ["-c", command]);
  await whileWaiting(alone, async (child, pid) => {
    process.kill(pid, "SIGHUP");
    await sleep(500);
    assert.equal(child.exitCode ?? child.signalCode, null);
    assert.equal(readFileSync(`/proc/${pid}/comm`, "utf8"), "dockershim\n");
    process.kill(pid, "SIGTERM");
    await once(child, "exit");
  });
});
