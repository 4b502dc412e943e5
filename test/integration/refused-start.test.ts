/** Starts that cannot be: one clear line and exit code 1, and nothing is served. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { lstat } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runProgram } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

describe("a start that is refused", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  /** Runs with what is given; expects exit code 1 and one line, which is answered. */
  async function refusal(flags: readonly string[]): Promise<string> {
    const directory = await bed.newDirectory();
    const socket = join(directory, "cri.sock");
    const own = [`--state-dir=${join(directory, "state")}`, `--container-runtime-endpoint=unix://${socket}`];
    const exit = await runProgram([...own, ...flags]);
    assert.equal(exit.code, 1, exit.stderr);
    const lines = exit.stderr.trimEnd().split("\n");
    // The log, which is JSON, may say more; the reason is one line for people.
    const plain = lines.filter((line) => !line.startsWith("{"));
    assert.equal(plain.length, 1, exit.stderr);
    assert.equal(exit.stdout, "");
    await assert.rejects(lstat(socket), { code: "ENOENT" });
    return plain[0] ?? "";
  }

  const table: readonly (readonly [name: string, flags: readonly string[], line: RegExp])[] = [
    ["an unknown flag", ["--network-plugi=no-op"], /network-plugi.*network-plugin/],
    ["a socket with another scheme", ["--container-runtime-endpoint=tcp://127.0.0.1:1"], /tcp:\/\//],
    [
      "the cgroup driver that the engine has not",
      ["--cgroup-driver=systemd", "--network-plugin=no-op"],
      /cgroup-driver=systemd.*cgroupfs/,
    ],
  ];
  for (const [name, flags, line] of table) {
    test(name, async () => {
      const said = await refusal(flags);
      assert.match(said, /^dockershim: /);
      assert.match(said, line);
    });
  }

  test("an engine that is too old", async () => {
    const socket = join(await bed.newDirectory(), "old.sock");
    const engine = createServer((request, response) => {
      response.setHeader("Api-Version", "1.40");
      if (request.url?.endsWith("/_ping") === true) response.end("OK");
      else response.end(JSON.stringify({ Version: "19.03.15", ApiVersion: "1.40", MinAPIVersion: "1.12" }));
    }).listen(socket);
    await once(engine, "listening");
    try {
      const said = await refusal([`--docker-endpoint=unix://${socket}`, "--network-plugin=no-op"]);
      assert.match(said, /1\.40/);
      assert.match(said, /1\.41/);
    } finally {
      engine.closeAllConnections();
      engine.close();
    }
  });
});
