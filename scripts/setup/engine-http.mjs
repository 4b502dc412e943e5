/** The few requests that the set-up makes to a Docker Engine, without any dependency. */
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { join } from "node:path";

/**
 * @typedef {{ kind: "unix", socketPath: string }
 *   | { kind: "tcp", host: string, port: number, tls?: { ca: Buffer, cert: Buffer, key: Buffer } }} Address
 * @typedef {{ status: number, headers: http.IncomingHttpHeaders, body: Buffer }} Answer
 */

/**
 * Where an endpoint points to. Throws with the reason when it cannot be one.
 * @param {string} endpoint as --docker-endpoint and DOCKER_HOST have it
 * @param {NodeJS.ProcessEnv} env DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, as Docker's own client reads them
 * @returns {Address}
 */
export function parseEndpoint(endpoint, env) {
  const match = /^([a-z]+):\/\/(.*)$/.exec(endpoint);
  if (match === null) throw new Error(`bad endpoint "${endpoint}": it must begin with unix:// or tcp://`);
  const [, scheme = "", rest = ""] = match;
  if (scheme === "unix") {
    if (!rest.startsWith("/"))
      throw new Error(`bad endpoint "${endpoint}": the socket's path must be absolute`);
    return { kind: "unix", socketPath: rest };
  }
  if (scheme !== "tcp" && scheme !== "http" && scheme !== "https") {
    throw new Error(`bad endpoint "${endpoint}": ${scheme}:// is not supported, use unix:// or tcp://`);
  }
  const url = new URL(`http://${rest}`);
  const withTls = scheme === "https" || (env["DOCKER_TLS_VERIFY"] ?? "") !== "";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port === "" ? (withTls ? 2376 : 2375) : url.port);
  if (!withTls) return { kind: "tcp", host, port };
  const folder = env["DOCKER_CERT_PATH"] ?? join(env["HOME"] ?? "/root", ".docker");
  const read = (/** @type {string} */ name) => readFileSync(join(folder, name));
  return {
    kind: "tcp",
    host,
    port,
    tls: { ca: read("ca.pem"), cert: read("cert.pem"), key: read("key.pem") },
  };
}

/**
 * One request, one whole answer. Rejects with the system's error, and with a TimeoutError at the deadline, which
 * holds for the last byte of the answer too.
 * @param {Address} address
 * @param {{ method?: string, path: string, headers?: Record<string, string>, body?: Buffer, deadlineMs: number,
 *   maximumBytes?: number }} options
 * @returns {Promise<Answer>}
 */
export function request(
  address,
  { method = "GET", path, headers = {}, body, deadlineMs, maximumBytes = 1 << 20 },
) {
  return new Promise((resolve, reject) => {
    /** @type {https.RequestOptions} */
    const options = {
      method,
      path,
      headers: {
        // With TLS the certificate must be that of this name: only a socket has none of its own.
        ...(address.kind === "unix" ? { Host: "docker" } : {}),
        ...headers,
        ...(body === undefined ? {} : { "Content-Length": body.length }),
      },
      agent: false,
      signal: AbortSignal.timeout(deadlineMs),
      ...(address.kind === "unix"
        ? { socketPath: address.socketPath }
        : { host: address.host, port: address.port, ...(address.tls ?? {}) }),
    };
    const send = address.kind === "tcp" && address.tls !== undefined ? https.request : http.request;
    const outgoing = send(options, (incoming) => {
      /** @type {Buffer[]} */
      const chunks = [];
      let length = 0;
      incoming.on("data", (/** @type {Buffer} */ chunk) => {
        length += chunk.length;
        if (length > maximumBytes) outgoing.destroy(new Error("the answer is too long"));
        else chunks.push(chunk);
      });
      incoming.on("error", reject);
      incoming.on("end", () => {
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
