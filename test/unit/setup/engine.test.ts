import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createRawServer, type Server } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type Attempt, type Finding, probeEngine } from "../../../scripts/setup/engine.mjs";
import {
  adviceFor,
  readProcess,
  runningEnginePid,
  setupObstacle,
  stillRuns,
} from "../../../scripts/setup/ensure-engine.mjs";
import { isDebianLike, readRecord, writeRecord } from "../../../scripts/setup/install.mjs";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const version = { Version: "20.10.24", ApiVersion: "1.41", Components: [{ Name: "Engine" }] };
type Answers = Readonly<Record<string, string>>;

/** Answers 404 to what it has no answer for. */
const httpServer = (answers: Answers): Server =>
  createServer(({ url = "" }, outgoing) => {
    outgoing.writeHead(answers[url] === undefined ? 404 : 200).end(answers[url]);
  });

describe("probeEngine()", () => {
  const ping = { "/_ping": "OK" };
  const podman = { ...version, Components: [{ Name: "Podman Engine" }] };
  const endless = createServer((_, outgoing) => outgoing.writeHead(200).write("O"));
  const found: readonly (readonly [what: string, server: Server, finding: Finding])[] = [
    ["an engine", httpServer({ ...ping, "/version": JSON.stringify(version) }), "engine"],
    ["a program that answers 404", httpServer({}), "foreign"],
    ["a program that pings with another text", httpServer({ "/_ping": "pong" }), "foreign"],
    ["a program without a version", httpServer({ ...ping, "/version": "{}" }), "foreign"],
    ["a program whose version is no JSON", httpServer({ ...ping, "/version": "<html>" }), "foreign"],
    ["Podman", httpServer({ ...ping, "/version": JSON.stringify(podman) }), "foreign"],
    ["a program without HTTP", createRawServer((socket) => socket.end("SSH-2.0-x\r\n\r\n")), "foreign"],
    ["a program that never answers", createServer(), "silent"],
    ["a program whose answer never ends", endless, "silent"],
  ];
  for (const [what, server, finding] of found) {
    test(`finds ${finding} behind the socket of ${what}`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, "docker.sock");
      await new Promise<void>((resolve) => server.listen(path, resolve));
      const attempt = await probeEngine(`unix://${path}`, {}, finding === "silent" ? 50 : 5000);
      server.close();
      assert.equal(attempt.finding, finding, attempt.detail);
      if (finding === "engine") assert.equal(attempt.detail, "Docker Engine 20.10.24, API 1.41");
    });
  }

  test("asks an engine elsewhere by its own name, which its certificate is for", async () => {
    const hosts: (string | undefined)[] = [];
    const server = createServer(({ headers }, outgoing) => {
      hosts.push(headers.host);
      outgoing.end("OK");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await probeEngine(`tcp://127.0.0.1:${port}`, {});
    server.close();
    assert.deepEqual([...new Set(hosts)], [`127.0.0.1:${port}`]);
  });

  test("distinguishes a missing socket, one without a listener, and what is no endpoint", async () => {
    await using at = await temporaryDirectory();
    writeFileSync(join(at.path, "stale"), "");
    const endpoints = [
      `unix://${at.path}/missing`,
      `unix://${at.path}/stale`,
      "unix://docker.sock",
      "ssh://h",
    ];
    const attempts = await Promise.all(endpoints.map((endpoint) => probeEngine(endpoint, {})));
    const findings = attempts.map(({ finding }) => finding);
    assert.deepEqual(findings, ["absent", "refused", "failed", "failed"]);
  });

  test("names a TLS file that is missing, which is no missing socket", async () => {
    const env = { DOCKER_TLS_VERIFY: "1", DOCKER_CERT_PATH: "/nowhere" };
    const { finding, detail } = await probeEngine("tcp://127.0.0.1:1", env);
    assert.equal(finding, "failed");
    assert.match(detail, /\/nowhere\/ca\.pem/);
  });
});

const attempt = (finding: Finding, endpoint = "unix:///var/run/docker.sock"): Attempt => ({
  ...{ endpoint, finding, detail: "the detail" },
});
const named = attempt("refused", "tcp://127.0.0.1:1");
const root = { allowSetup: true, userId: 0 };
const obstacles: readonly (readonly [what: string, Attempt, typeof root, RegExp])[] = [
  ["where it is forbidden", attempt("absent"), { ...root, allowSetup: false }, /--no-setup/],
  ["without root", attempt("absent"), { ...root, userId: 1000 }, /only root|Linux only/],
  ["at a socket that is another user's", attempt("denied"), root, /docker\.sock/],
  ["at a socket of another program", attempt("foreign"), root, /docker\.sock/],
  ["at an endpoint that the user named", named, root, /^no Docker Engine at tcp:.*: the detail$/],
];
for (const [what, given, rights, reason] of obstacles)
  test(`no engine is set up ${what}`, () => assert.match(setupObstacle(given, rights) ?? "", reason));

test("adviceFor() names root, a line to start or install an engine, and the flag for one elsewhere", () => {
  assert.match(adviceFor(attempt("denied")).join("\n"), /sudo npm start/);
  const advice = adviceFor(attempt("absent"));
  assert.match(advice[0] ?? "", /^(start|install)/);
  assert.match(advice.at(-1) ?? "", /--docker-endpoint/);
  // No second engine where something has the usual socket.
  assert.doesNotMatch(adviceFor(attempt("silent")).join("\n"), /install|start the engine/);
});

test("readRecord() gives back what writeRecord() wrote, and nothing of a file that cannot be read", async () => {
  await using at = await temporaryDirectory();
  const engine = { pid: 12, startTime: "34", logFile: "/var/log/a" };
  writeRecord(at.path, { installedPackages: ["docker.io"], engine });
  assert.deepEqual(readRecord(at.path), { installedPackages: ["docker.io"], engine });
  for (const text of ["", "null", "[]", '{"installedPackages":5,"engine":{"pid":"1"}}']) {
    writeFileSync(join(at.path, "setup.json"), text);
    assert.deepEqual(readRecord(at.path), { installedPackages: [] }, text);
  }
});

test("another program with the number of the engine's process is not taken for the engine", async () => {
  await using at = await temporaryDirectory();
  const pidFile = join(at.path, "docker.pid");
  writeFileSync(pidFile, String(process.pid));
  assert.equal(runningEnginePid(pidFile), undefined);
  if (process.platform === "linux") assert.match(readProcess(process.pid)?.startTime ?? "", /^\d+$/);
  const startTime = readProcess(process.pid)?.startTime ?? "";
  assert.equal(stillRuns({ pid: process.pid, startTime, logFile: "" }), false);
});

const releases: readonly (readonly [string, boolean])[] = [
  ['PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n', true],
  ['ID=ubuntu\nID_LIKE=debian\nHOME_URL="https://www.ubuntu.com/"\n', true],
  ['ID=linuxmint\nID_LIKE="ubuntu debian"\n', true],
  ['ID=fedora\nREDHAT_SUPPORT_PRODUCT="not debian"\n', false],
  ['NAME="x"\nVARIANT_ID=debian\n', false],
  ["", false],
];
for (const [text, expected] of releases)
  test(`isDebianLike() is ${expected} for ${JSON.stringify(text)}`, () =>
    assert.equal(isDebianLike(text), expected));
