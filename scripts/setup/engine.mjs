/**
 * The few requests that the set-up makes to a Docker Engine, without any dependency, and whether one answers at an endpoint. A
 * `docker` client in PATH proves nothing, neither does a socket file.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { join } from "node:path";

export const defaultEndpoint = "unix:///var/run/docker.sock";

/**
 * What was found at an endpoint:
 * - "engine": a Docker Engine answered; all else is none
 * - "absent": no socket file, no such host
 * - "refused": nobody listens there (a stopped engine's socket file)
 * - "denied": the socket exists, this user may not use it
 * - "silent": a connection is taken or pending, no answer within the deadline
 * - "foreign": something answered that is not a Docker Engine
 * - "failed": no endpoint can be written like that, its TLS files cannot be read, or any other failure to connect
 * @typedef {"engine" | "absent" | "refused" | "denied" | "silent" | "foreign" | "failed"} Finding
 * @typedef {{ endpoint: string, finding: Finding, detail: string }} Attempt
 * @typedef {{ socketPath: string } | { host: string, port: number, ca?: Buffer, cert?: Buffer, key?: Buffer }} Address
 */

const PROBE_DEADLINE_MS = 3000;

/** @type {Record<string, [Finding, string]>} */
const findings = {
  ENOENT: ["absent", "there is no such socket"],
  ENOTDIR: ["absent", "there is no such socket"],
  ENOTFOUND: ["absent", "there is no such host"],
  ECONNREFUSED: ["refused", "nothing listens there"],
  ENOTSOCK: ["refused", "it is not a socket"],
  EACCES: ["denied", "this user may not use the socket"],
  EPERM: ["denied", "this user may not use the socket"],
  TimeoutError: ["silent", `no answer within ${String(PROBE_DEADLINE_MS / 1000)} s`],
};

/**
 * Where an endpoint points to. Throws with the reason when it cannot be one.
 * @param {string} endpoint as --docker-endpoint and DOCKER_HOST have it
 * @param {NodeJS.ProcessEnv} env DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, as Docker's own client reads them
 * @returns {Address}
 */
export function parseEndpoint(endpoint, env) {
  const [, scheme = "", rest = ""] = /^([a-z]+):\/\/(.*)$/.exec(endpoint) ?? [];
  if (scheme === "unix" && rest.startsWith("/")) return { socketPath: rest };
  if (!["tcp", "http", "https"].includes(scheme))
    throw new Error(`bad endpoint "${endpoint}": it must be unix:///PATH or tcp://HOST:PORT`);
  const url = new URL(`http://${rest}`);
  const withTls = scheme === "https" || (env["DOCKER_TLS_VERIFY"] ?? "") !== "";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port === "" ? (withTls ? 2376 : 2375) : url.port);
  if (!withTls) return { host, port };
  const folder = env["DOCKER_CERT_PATH"] ?? join(env["HOME"] ?? "/root", ".docker");
  const read = (/** @type {string} */ name) => readFileSync(join(folder, name));
  return { host, port, ca: read("ca.pem"), cert: read("cert.pem"), key: read("key.pem") };
}

/**
 * One request, one whole answer. Rejects with the system's error, and with a TimeoutError at the deadline, which
 * holds for the last byte of the answer too.
 * @param {Address} address
 * @param {{ method?: string, path: string, headers?: Record<string, string>, body?: Buffer, deadlineMs: number }} options
 * @returns {Promise<{ status: number, text: string }>}
 */
export async function request(address, { method = "GET", path, headers = {}, body, deadlineMs }) {
  const signal = AbortSignal.timeout(deadlineMs);
  const outgoing = ("ca" in address ? https : http).request({
    ...{ ...address, method, path, signal, agent: false },
    headers: {
      // With TLS the certificate must be that of this name: only a socket has none of its own.
      ...("socketPath" in address ? { Host: "docker" } : {}),
      ...headers,
      ...(body === undefined ? {} : { "Content-Length": body.length }),
    },
  });
  // Those after the head come from the body, too.
  outgoing.on("error", () => undefined);
  try {
    outgoing.end(body);
    const [incoming] = /** @type {[http.IncomingMessage]} */ (await once(outgoing, "response"));
    let text = "";
    for await (const chunk of incoming.setEncoding("utf8")) {
      text += chunk;
      if (text.length > 1 << 20) throw new Error("the answer is too long");
    }
    return { status: incoming.statusCode ?? 0, text };
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}

/**
 * Asks an endpoint for `/_ping` and `/version`. Never rejects.
 * @param {string} endpoint
 * @param {NodeJS.ProcessEnv} [env]
 * @param {number} [deadlineMs] for both requests together
 * @returns {Promise<Attempt>}
 */
export async function probeEngine(endpoint, env = process.env, deadlineMs = PROBE_DEADLINE_MS) {
  const end = Date.now() + deadlineMs;
  const foreign = (/** @type {string} */ detail) =>
    /** @type {Attempt} */ ({ endpoint, finding: "foreign", detail: `not a Docker Engine: ${detail}` });
  let address;
  try {
    address = parseEndpoint(endpoint, env);
  } catch (error) {
    return { endpoint, finding: "failed", detail: error instanceof Error ? error.message : String(error) };
  }
  try {
    const ping = await request(address, { path: "/_ping", deadlineMs });
    if (ping.status !== 200 || ping.text.trim() !== "OK")
      return foreign(`/_ping answered ${String(ping.status)}`);
    const { text } = await request(address, { path: "/version", deadlineMs: Math.max(1, end - Date.now()) });
    const { Version, ApiVersion, Components } = parsed(text);
    if (typeof Version !== "string" || typeof ApiVersion !== "string")
      return foreign("/version is no engine's");
    if (Array.isArray(Components) && Components.some(({ Name }) => Name === "Podman Engine"))
      return foreign(`it is Podman ${Version}`);
    return { endpoint, finding: "engine", detail: `Docker Engine ${Version}, API ${ApiVersion}` };
  } catch (error) {
    const { code = "", name = "", message } = /** @type {NodeJS.ErrnoException} */ (error);
    const known = findings[code] ?? findings[name];
    if (known !== undefined) return { endpoint, finding: known[0], detail: known[1] };
    // The parser's complaint about bytes that are no HTTP.
    return code.startsWith("HPE_")
      ? foreign("the answer is no HTTP")
      : { endpoint, finding: "failed", detail: message };
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
