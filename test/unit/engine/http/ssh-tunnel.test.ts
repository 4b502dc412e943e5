import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { type TestContext, test } from "node:test";
import { rejectsWith } from "../../../support/refusals.js";
import { EngineClient } from "../../../../src/shim/engine/http/client.js";
import type { SshEndpoint } from "../../../../src/shim/engine/http/endpoint.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { json, startFakeDocker } from "../fake-docker.js";

const { signal } = new AbortController();
const get = { action: "ask", method: "GET", path: ["thing"], unversioned: true } as const;

/** A program `ssh` for this test: its words go to a file, then it does what `body` says. */
async function standIn(context: TestContext, directory: string, body: string): Promise<string> {
  const program = join(directory, "ssh");
  const words = join(directory, "words");
  const script = `#!${process.execPath}
const { appendFileSync } = require("node:fs");
appendFileSync(${JSON.stringify(words)}, JSON.stringify(process.argv.slice(2)) + "\\n");
${body}`;
  await writeFile(program, script);
  await chmod(program, 0o700);
  const saved = process.env["PATH"] ?? "";
  process.env["PATH"] = `${directory}${delimiter}${saved}`;
  context.after(() => {
    process.env["PATH"] = saved;
  });
  return words;
}

const relayTo = (path: string): string => `
const socket = require("node:net").connect(${JSON.stringify(path)});
process.stdin.pipe(socket).pipe(process.stdout);`;

function client(endpoint: SshEndpoint & { readonly context?: string }): EngineClient & Disposable {
  const made = new EngineClient({ endpoint, shortTimeoutMs: 20_000 });
  return Object.assign(made, { [Symbol.dispose]: () => made.close() });
}

test("requests go through ssh and the other host's dial-stdio", async (context) => {
  await using directory = await temporaryDirectory();
  await using docker = await startFakeDocker({ "GET /thing": json("fine") });
  const words = await standIn(context, directory.path, relayTo(docker.path));
  using engine = client({ kind: "ssh", user: "root", host: "far", port: 2222, path: "/run/d.sock" });
  assert.equal(await engine.json(get, signal), "fine");
  assert.equal(await engine.json(get, signal), "fine");
  assert.deepEqual(JSON.parse((await readFile(words, "utf8")).split("\n")[0] ?? ""), [
    ...["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-l", "root", "-p", "2222"],
    ...["--", "far", "docker", "--host=unix:///run/d.sock", "system", "dial-stdio"],
  ]);
  // The connection is kept: one process for both.
  assert.equal((await readFile(words, "utf8")).trim().split("\n").length, 1);
});

test("a refusal of ssh is the reason why the engine cannot be reached, and names the context", async (context) => {
  await using directory = await temporaryDirectory();
  const body = 'process.stderr.write("noise\\nHost key verification failed.\\r\\n"); process.exit(255);';
  const words = await standIn(context, directory.path, body);
  using engine = client({ kind: "ssh", host: "far", context: "lab" });
  await rejectsWith(
    engine.json(get, signal),
    "unavailable",
    'cannot reach the Docker Engine at ssh://far (context "lab"): Host key verification failed; ' +
      'try "ssh far docker version" in a terminal',
  );
  const tries = (await readFile(words, "utf8")).trim().split("\n").length;
  assert.equal(tries, 1, "a second attempt doubles the wait");
});

test("a long banner of the other host does not hide the refusal", async (context) => {
  await using directory = await temporaryDirectory();
  const text = `${"Authorized users only.\\n".repeat(200)}root@far: Permission denied (publickey).\\r\\n`;
  await standIn(context, directory.path, `process.stderr.write("${text}"); process.exitCode = 255;`);
  using engine = client({ kind: "ssh", host: "far" });
  await assert.rejects(engine.json(get, signal), { message: /ssh:\/\/far: root@far: Permission denied/ });
});

test("a missing program ssh is named", async (context) => {
  await using directory = await temporaryDirectory();
  const saved = process.env["PATH"];
  process.env["PATH"] = directory.path;
  context.after(() => {
    process.env["PATH"] = saved;
  });
  using engine = client({ kind: "ssh", host: "far" });
  await assert.rejects(engine.json(get, signal), { message: /start "ssh": spawn ssh ENOENT/ });
});

test("the end of the client ends ssh and removes its socket", async (context) => {
  await using directory = await temporaryDirectory();
  await using docker = await startFakeDocker({ "GET /thing": json("fine") });
  const ended = join(directory.path, "ended");
  const note = `require("node:fs").writeFileSync(${JSON.stringify(ended)}, "")`;
  const body = `${relayTo(docker.path)}\nprocess.on("SIGTERM", () => { ${note}; process.exit(); });`;
  await standIn(context, directory.path, body);
  const engine = client({ kind: "ssh", host: "far" });
  await engine.json(get, signal);
  engine.close();
  for (let turn = 0; turn < 200; turn += 1) {
    if ((await readFile(ended).catch(() => undefined)) !== undefined) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail("ssh runs on");
});
