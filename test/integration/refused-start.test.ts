/** Starts that cannot be: one clear line and exit code 1, and nothing is served. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { lstat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runProgram } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

describe("a start that is refused", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  /** Runs with what is given; expects exit code 1 and one line, which is answered. */
  async function refusal(
    flags: readonly string[],
    environment: Record<string, string> = {},
  ): Promise<string> {
    const directory = await bed.newDirectory();
    const socket = join(directory, "cri.sock");
    const exit = await runProgram(
      [
        `--state-dir=${join(directory, "state")}`,
        ...(flags.some((flag) => flag.includes("container-runtime-endpoint"))
          ? []
          : [`--container-runtime-endpoint=unix://${socket}`]),
        ...flags,
      ],
      environment,
    );
    assert.equal(exit.code, 1, exit.stderr);
    const lines = exit.stderr.trimEnd().split("\n");
    // The log, which is JSON, may say more; the reason is one line for people.
    const plain = lines.filter((line) => !line.startsWith("{"));
    assert.equal(plain.length, 1, exit.stderr);
    assert.equal(exit.stdout, "");
    await assert.rejects(lstat(socket), { code: "ENOENT" });
    return plain[0] ?? "";
  }

  const table: readonly { name: string; flags: readonly string[]; line: RegExp }[] = [
    { name: "an unknown flag", flags: ["--network-plugi=no-op"], line: /network-plugi.*network-plugin/ },
    { name: "a value that is none", flags: ["--image-pull-progress-deadline=soon"], line: /soon/ },
    {
      name: "a socket with a relative path",
      flags: ["--container-runtime-endpoint=unix://relative.sock"],
      line: /relative\.sock/,
    },
    {
      name: "a socket with another scheme",
      flags: ["--container-runtime-endpoint=tcp://127.0.0.1:1"],
      line: /tcp:\/\//,
    },
    {
      name: "an engine with another scheme",
      flags: ["--docker-endpoint=npipe://host"],
      line: /npipe:\/\/host/,
    },
    {
      name: "an engine with a relative path",
      flags: ["--docker-endpoint=unix://docker.sock"],
      line: /docker\.sock/,
    },
    { name: "a network plugin that is not there", flags: ["--network-plugin=weave"], line: /weave/ },
    {
      name: "a configuration file that is missing",
      flags: ["--config=/no/such.yaml"],
      line: /\/no\/such\.yaml/,
    },
    {
      name: "the cgroup driver that the engine has not",
      flags: ["--cgroup-driver=systemd", "--network-plugin=no-op"],
      line: /cgroup-driver=systemd.*cgroupfs/,
    },
  ];
  for (const { name, flags, line } of table) {
    test(name, async () => {
      const said = await refusal(flags);
      assert.match(said, /^dockershim: /);
      assert.match(said, line);
    });
  }

  test("an unknown environment variable and a wrong value in one", async () => {
    assert.match(await refusal([], { DOCKERSHIM_STATE_DIRR: "/x" }), /DOCKERSHIM_STATE_DIRR/);
    assert.match(await refusal([], { DOCKERSHIM_LOG_LEVEL: "loud" }), /loud/);
  });

  test("a configuration file that was only written half", async () => {
    const path = join(await bed.newDirectory(), "config.yaml");
    const whole = "log-level: info\ncni-bin-dir:\n  - /opt/cni/bin\nnetwork-plugin: [no-op\n";
    await writeFile(path, whole);
    assert.match(await refusal([`--config=${path}`]), /config\.yaml/);
    await writeFile(path, "log-level: info\nnetwork-plug");
    assert.match(await refusal([`--config=${path}`]), /config\.yaml/);
  });

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
