import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { hasLeftNamespaces } from "../../../src/shim/host/prove-reach.js";

test("a process that has ended, and waits for its parent, has left its namespaces; one that runs has not", async () => {
  // sleep takes the place of the shell, and never waits for the child.
  const parent = spawn("sh", ["-c", "read line & echo $!; exec sleep 60"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  try {
    const [text] = (await once(parent.stdout, "data")) as [Buffer];
    const pid = Number(text.toString());
    while (!hasLeftNamespaces(pid)) await new Promise(setImmediate);
    assert.equal(hasLeftNamespaces(parent.pid ?? 0), false);
  } finally {
    parent.kill("SIGKILL");
  }
});
