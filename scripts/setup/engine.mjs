/** Whether a Docker Engine answers at an endpoint. A `docker` client in PATH proves nothing, neither does a socket file. */
import { parseEndpoint, request } from "./engine-http.mjs";

export const defaultEndpoint = "unix:///var/run/docker.sock";

/**
 * What was found at an endpoint:
 * - "engine": a Docker Engine answered; all else is none
 * - "absent": no socket file, no such host
 * - "refused": nobody listens there (a stopped engine's socket file)
 * - "denied": the socket exists, this user may not use it
 * - "silent": a connection is taken or pending, no answer within the deadline
 * - "foreign": something answered that is not a Docker Engine
 * - "invalid": no endpoint can be written like that, or its TLS files cannot be read
 * - "unreachable": any other failure to connect
 * @typedef {"engine" | "absent" | "refused" | "denied" | "silent" | "foreign" | "invalid" | "unreachable"} Finding
 * @typedef {{ endpoint: string, finding: Finding, detail: string, version?: string, apiVersion?: string,
 *   architecture?: string }} Attempt
 */

const PROBE_DEADLINE_MS = 3000;

/** @type {Record<string, [Finding, string]>} */
const findings = {
  ENOENT: ["absent", "there is no such socket"],
  ENOTDIR: ["absent", "there is no such socket"],
  ENOTFOUND: ["absent", "there is no such host"],
  EACCES: ["denied", "this user may not use the socket"],
  EPERM: ["denied", "this user may not use the socket"],
  ECONNREFUSED: ["refused", "nothing listens there"],
  ENOTSOCK: ["refused", "it is not a socket"],
  TimeoutError: ["silent", `no answer within ${String(PROBE_DEADLINE_MS / 1000)} s`],
  ABORT_ERR: ["silent", `no answer within ${String(PROBE_DEADLINE_MS / 1000)} s`],
};

/**
 * Asks an endpoint for `/_ping` and `/version`. Never rejects.
 * @param {string} endpoint
 * @param {NodeJS.ProcessEnv} [env]
 * @param {number} [deadlineMs] for both requests together
 * @returns {Promise<Attempt>}
 */
export async function probeEngine(endpoint, env = process.env, deadlineMs = PROBE_DEADLINE_MS) {
  const end = Date.now() + deadlineMs;
  let address;
  try {
    address = parseEndpoint(endpoint, env);
  } catch (error) {
    return { endpoint, finding: "invalid", detail: messageOf(error) };
  }
  try {
    const ping = await request(address, { path: "/_ping", deadlineMs });
    const isEngine = ping.status === 200 && ping.body.toString("utf8").trim() === "OK";
    if (!isEngine) return foreign(endpoint, `/_ping answered ${String(ping.status)}`);
    const answer = await request(address, { path: "/version", deadlineMs: Math.max(1, end - Date.now()) });
    const version = parseVersion(answer.body);
    if (answer.status !== 200 || version === undefined) return foreign(endpoint, "/version is no engine's");
    if (version.isPodman) return foreign(endpoint, `it is Podman ${version.version}`);
    return {
      endpoint,
      finding: "engine",
      detail: `Docker Engine ${version.version}, API ${version.apiVersion}`,
      version: version.version,
      apiVersion: version.apiVersion,
      architecture: version.architecture,
    };
  } catch (error) {
    const failure = /** @type {{ code?: string, name?: string }} */ (error);
    const known = findings[failure.code ?? ""] ?? findings[failure.name ?? ""];
    if (known !== undefined) return { endpoint, finding: known[0], detail: known[1] };
    // The parser's complaint about bytes that are no HTTP.
    if (failure.code?.startsWith("HPE_") === true) return foreign(endpoint, "the answer is no HTTP");
    return { endpoint, finding: "unreachable", detail: messageOf(error) };
  }
}

/**
 * @param {string} endpoint
 * @param {string} detail
 * @returns {Attempt}
 */
function foreign(endpoint, detail) {
  return { endpoint, finding: "foreign", detail: `not a Docker Engine: ${detail}` };
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** @param {Buffer} body */
function parseVersion(body) {
  /** @type {{ Version?: unknown, ApiVersion?: unknown, Arch?: unknown, Components?: { Name?: unknown }[] } | null} */
  let value;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
  if (typeof value?.Version !== "string" || typeof value.ApiVersion !== "string") return undefined;
  const components = Array.isArray(value.Components) ? value.Components : [];
  return {
    version: value.Version,
    apiVersion: value.ApiVersion,
    architecture: typeof value.Arch === "string" ? value.Arch : "",
    isPodman: components.some((component) => component.Name === "Podman Engine"),
  };
}
