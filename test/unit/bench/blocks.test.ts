import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Stage, type Server } from "../../../bench/blocks.js";
import type { CriClient } from "../../support/cri-client.js";
import { until } from "../../support/wait.js";

function serverOf(name: string, { pid }: { readonly pid?: number } = {}): Server {
  return { name, socket: `/run/${name}.sock`, cri: {} as CriClient, pid, mayBeSuspended: pid !== undefined };
}

test("inBlocks() turns the order of the servers around, and does not count warm-up rounds", async () => {
  const stage = new Stage([serverOf("a"), serverOf("b")], [], 0);
  const order: string[] = [];
  const counts = new Map<Server, number>();
  const measured = await stage.inBlocks(
    { rounds: 3, blockRounds: 2, warmUpRounds: [2, 1] },
    async (server) => {
      order.push(server.name);
      counts.set(server, (counts.get(server) ?? 0) + 1);
      return Promise.resolve({ call: counts.get(server) ?? 0 });
    },
  );
  assert.equal(order.join(""), "aaaa" + "bbbb" + "bb" + "aa");
  assert.deepEqual(
    measured.map(({ server, samples, usages }) => [server, samples.map(({ call }) => call), usages.length]),
    [
      ["a", [3, 4, 6], 2],
      ["b", [3, 4, 6], 2],
    ],
  );
});

test("inBlocks() stops a server that may be suspended while another one is measured, and resumes it", async () => {
  const child = spawn("sleep", ["100"]);
  try {
    const suspended = serverOf("a", { pid: child.pid ?? 0 });
    const stage = new Stage([suspended, serverOf("b")], [], 0);
    const stateOf = (): string => /\) (\S)/.exec(readFileSync(`/proc/${child.pid}/stat`, "utf8"))?.[1] ?? "";
    const states: string[] = [];
    const options = { rounds: 2, blockRounds: 1, warmUpRounds: [0, 0] } as const;
    await stage.inBlocks(options, async ({ name }) => {
      // A signal to stop is delivered when the process runs next.
      if (name === "b") await until("the server to stop", () => stateOf() === "T");
      states.push(`${name} ${stateOf() === "T" ? "stopped" : "runs"}`);
      return {};
    });
    assert.deepEqual(states, ["a runs", "b stopped", "b stopped", "a runs"]);
    assert.notEqual(stateOf(), "T");
  } finally {
    child.kill("SIGKILL");
  }
});
