import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, type Server, Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { rejectsWith } from "../../../support/refusals.js";
import { EngineClient } from "../../../../src/shim/engine/http/client.js";
import {
  type EngineEndpoint,
  formatEndpoint,
  readContextTls,
  readTlsMaterial,
} from "../../../../src/shim/engine/http/endpoint.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

test("formatEndpoint() writes endpoints as Docker does", () => {
  for (const [endpoint, text] of [
    [{ kind: "unix", path: "/var/run/docker.sock" }, "unix:///var/run/docker.sock"],
    [{ kind: "tcp", host: "engine.example", port: 2376 }, "tcp://engine.example:2376"],
    [{ kind: "tcp", host: "::1", port: 2375 }, "tcp://[::1]:2375"],
    [{ kind: "ssh", user: "root", host: "far", port: 22 }, "ssh://root@far:22"],
    [{ kind: "unix", path: "/x", context: "desktop" }, 'unix:///x (context "desktop")'],
  ] as const)
    assert.equal(formatEndpoint(endpoint), text);
});

describe("readContextTls()", () => {
  const context = { name: "lab", verify: true };

  test("a context without files is plain text", async () => {
    assert.equal(await readContextTls("/nonexistent", context), undefined);
  });

  test("files that cannot be listed are no reason for plain text", async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, "docker");
    await writeFile(file, "");
    const message = /^Docker context "lab": read TLS files of ".*docker": ENOTDIR.*; "docker context/;
    await rejectsWith(readContextTls(file, context), "invalid", message);
  });

  test("an authority alone checks the engine; a certificate without its key is refused, with the context's name", async () => {
    await using directory = await temporaryDirectory();
    await writeFile(join(directory.path, "ca.pem"), "ca");
    assert.deepEqual(await readContextTls(directory.path, context), { ca: "ca", verify: true });
    await writeFile(join(directory.path, "cert.pem"), "cert");
    const message = /^Docker context "lab": read TLS file ".*\/key\.pem"/;
    await rejectsWith(readContextTls(directory.path, context), "invalid", message);
  });
});

describe("readTlsMaterial()", () => {
  async function writeMaterial(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    for (const name of ["ca", "cert", "key"]) await writeFile(join(directory, `${name}.pem`), name);
  }

  test("no variable, no TLS", async () => {
    const empty = { HOME: "/nonexistent", DOCKER_TLS_VERIFY: "", DOCKER_CERT_PATH: "" };
    assert.equal(await readTlsMaterial(empty), undefined);
  });

  test("the path switches TLS on, the other variable verification", async () => {
    await using directory = await temporaryDirectory();
    await writeMaterial(directory.path);
    const material = { ca: "ca", cert: "cert", key: "key" };
    const environment = { DOCKER_CERT_PATH: directory.path };
    assert.deepEqual(await readTlsMaterial(environment), { ...material, verify: false });
    const verifying = await readTlsMaterial({ ...environment, DOCKER_TLS_VERIFY: "1" });
    assert.deepEqual(verifying, { ...material, verify: true });
  });

  test("verification without a path uses DOCKER_CONFIG, else ~/.docker; a missing file is refused", async () => {
    await using home = await temporaryDirectory();
    await writeMaterial(join(home.path, ".docker"));
    const environment = { HOME: home.path, DOCKER_TLS_VERIFY: "1" };
    assert.equal((await readTlsMaterial(environment))?.ca, "ca");
    assert.equal((await readTlsMaterial({ ...environment, DOCKER_CONFIG: "" }))?.ca, "ca");
    for (const absent of [
      { ...environment, DOCKER_CONFIG: "/nonexistent" },
      { DOCKER_CERT_PATH: "/nonexistent" },
    ])
      await rejectsWith(readTlsMaterial(absent), "invalid", /^read TLS file "\/nonexistent\/ca\.pem": /);
  });
});

describe("EngineClient over TCP", () => {
  const request = { action: "ping", method: "GET", path: ["_ping"], unversioned: true } as const;
  const never = new AbortController().signal;

  async function ping(endpoint: EngineEndpoint): Promise<string> {
    const client = new EngineClient({ endpoint, shortTimeoutMs: 10_000 });
    try {
      return (await client.request(request, never)).body.toString();
    } finally {
      client.close();
    }
  }

  async function listen(server: Server, host: string): Promise<number> {
    // A name may have other addresses the next time that it is asked for: all are listened on.
    if (host === "localhost") server.listen(0);
    else server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  for (const host of ["127.0.0.1", "::1", "localhost"]) {
    test(`reaches ${host}`, async (context) => {
      const server = createHttpServer((incoming, response) => response.end(incoming.url));
      context.after(() => server.close());
      let port: number;
      try {
        port = await listen(server, host);
      } catch (error) {
        // Kernels without IPv6: the other address family is tested in any case.
        context.skip(`no ${host} on this machine: ${String(error)}`);
        return;
      }
      assert.equal(await ping({ kind: "tcp", host, port }), "/_ping");
    });
  }

  test("speaks TLS with a certificate of its own, and believes only the given authority", async (context) => {
    await using directory = await temporaryDirectory();
    const path = (name: string): string => join(directory.path, name);
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    for (const name of ["engine", "other"]) {
      const files = ["-keyout", path(`${name}.key`), "-out", path(`${name}.crt`)];
      try {
        const kind = ["-x509", "-newkey", "rsa:2048", "-nodes"];
        await promisify(execFile)("openssl", ["req", ...kind, ...files, ...subject]);
      } catch (error) {
        // The certificates are made by the test, so that none expires in the repository.
        context.skip(`no openssl on this machine: ${String(error)}`);
        return;
      }
    }
    const read = async (name: string): Promise<string> => readFile(path(name), "utf8");
    const own = { cert: await read("engine.crt"), key: await read("engine.key") };
    const options = { ...own, ca: own.cert, requestCert: true, rejectUnauthorized: true };
    const server = createHttpsServer(options, (_, response) => response.end("secure"));
    context.after(() => server.close());
    const port = await listen(server, "127.0.0.1");
    const at = { kind: "tcp", host: "127.0.0.1", port } as const;
    const endpoint = (ca: string, verify: boolean): EngineEndpoint => ({
      ...at,
      tls: { ...own, ca, verify },
    });
    assert.equal(await ping(endpoint(own.cert, true)), "secure");
    const keepAlive = context.mock.method(Socket.prototype, "setKeepAlive");
    assert.equal(await ping(endpoint(own.cert, true)), "secure");
    assert.deepEqual(
      keepAlive.mock.calls.map((call) => call.arguments),
      [[true, 1000]],
      "an engine whose host vanishes is noticed",
    );
    const other = await read("other.crt");
    const message = /^cannot reach the Docker Engine at tcp:\/\/127\.0\.0\.1:\d+: .*certificate/;
    await rejectsWith(ping(endpoint(other, true)), "unavailable", message);
    assert.equal(await ping(endpoint(other, false)), "secure");
    await assert.rejects(ping(at), { kind: "unavailable" });
  });
});
