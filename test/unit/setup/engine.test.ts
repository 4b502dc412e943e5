import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createRawServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { probeEngine } from "../../../scripts/setup/engine.mjs";

const folder = mkdtempSync(join(tmpdir(), "dockershim-engine-"));
const closers: (() => void)[] = [];
after(() => {
  for (const close of closers) close();
  rmSync(folder, { recursive: true, force: true });
});

const engineVersion = {
  Version: "20.10.24",
  ApiVersion: "1.41",
  Arch: "amd64",
  Components: [{ Name: "Engine" }],
};

function listen(name: string, server: Server): Promise<string> {
  const path = join(folder, name);
  return new Promise((resolve) => {
    server.listen(path, () => {
      resolve(`unix://${path}`);
    });
    closers.push(() => server.close());
  });
}

function httpEngine(
  name: string,
  answers: Record<string, { status?: number; body: string }>,
): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    const answer = answers[incoming.url ?? ""];
    outgoing.writeHead(answer?.status ?? (answer === undefined ? 404 : 200)).end(answer?.body ?? "");
  });
  return listen(name, server);
}

const probe = (endpoint: string, deadlineMs = 5000) => probeEngine(endpoint, {}, deadlineMs);

describe("probeEngine()", () => {
  test("asks an engine elsewhere by its own name, which its certificate is for", async () => {
    const hosts: (string | undefined)[] = [];
    const server = createServer(({ headers }, outgoing) => {
      hosts.push(headers.host);
      outgoing.end("OK");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    const { port } = server.address() as AddressInfo;
    await probe(`tcp://127.0.0.1:${port}`);
    assert.deepEqual([...new Set(hosts)], [`127.0.0.1:${port}`]);
  });

  const impostors = {
    "answers 404": {},
    "pings with another text": { "/_ping": { body: "pong" } },
    "has no version": { "/_ping": { body: "OK" }, "/version": { body: "{}" } },
    "has a version that is no JSON": { "/_ping": { body: "OK" }, "/version": { body: "<html>" } },
    "is Podman": {
      "/_ping": { body: "OK" },
      "/version": { body: JSON.stringify({ ...engineVersion, Components: [{ Name: "Podman Engine" }] }) },
    },
  };
  for (const [name, answers] of Object.entries(impostors)) {
    test(`calls a program foreign that ${name}`, async () => {
      const endpoint = await httpEngine(name.replaceAll(" ", "-"), answers);
      assert.equal((await probe(endpoint)).finding, "foreign");
    });
  }

  test("calls a program foreign that does not speak HTTP", async () => {
    const server = createRawServer((socket) => socket.end("SSH-2.0-something\r\n\r\n"));
    assert.equal((await probe(await listen("raw", server))).finding, "foreign");
  });

  test("calls a socket silent that accepts the request and never answers", async () => {
    const endpoint = await listen("silent", createServer());
    assert.equal((await probe(endpoint, 50)).finding, "silent");
  });

  test("distinguishes a missing socket from a socket without a listener", async () => {
    writeFileSync(join(folder, "stale"), "");
    assert.equal((await probe(`unix://${join(folder, "missing")}`)).finding, "absent");
    assert.equal((await probe(`unix://${join(folder, "stale")}`)).finding, "refused");
  });

  for (const endpoint of [
    "/var/run/docker.sock",
    "unix://docker.sock",
    "ssh://host",
    "npipe:////./pipe/docker",
  ]) {
    test(`calls ${endpoint} invalid without trying it`, async () => {
      assert.equal((await probe(endpoint)).finding, "invalid");
    });
  }
});
