/**
 * The engine that Docker's own command line would use when no endpoint is given: the current context of its
 * configuration, and where Docker Desktop and its like have their sockets. Files and order as in docker/cli.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import { type DockerEndpoint, dockerEndpointKind } from "./endpoints.js";
import type { Environment } from "./given.js";

export interface DockerContext {
  readonly name: string;
  /** Directory of ca.pem, cert.pem and key.pem, which may be missing. */
  readonly tlsDirectory: string;
  /** Whether the engine's certificate is checked. */
  readonly verify: boolean;
}

export interface FoundEngine {
  readonly endpoint: DockerEndpoint;
  /** Where it was found, as `context "desktop"`; empty for the default socket. */
  readonly detail: string;
  readonly context?: DockerContext;
}

export interface ContextFiles {
  /** Rejects with an error of the system when there is none. */
  readonly readFile: (path: string) => Promise<string>;
  readonly isSocket: (path: string) => Promise<boolean>;
}

const defaultPath = "/var/run/docker.sock";
/** `npipe:////./pipe/docker_engine` */
const windowsPipe = "//./pipe/docker_engine";
/** Sockets below the home directory, in the order in which they are tried. */
const homeSockets: readonly (readonly [string, string])[] = [
  [".docker/run/docker.sock", "Docker Desktop"],
  [".docker/desktop/docker.sock", "Docker Desktop"],
  [".orbstack/run/docker.sock", "OrbStack"],
  [".colima/default/docker.sock", "Colima"],
  [".rd/docker.sock", "Rancher Desktop"],
];

/** Throws `invalid` for a context that is named and cannot be used: another engine is not what was asked. */
export async function findEngine(environment: Environment, files: ContextFiles): Promise<FoundEngine> {
  const directory = configDirectory(environment);
  const named = environment["DOCKER_CONTEXT"] ?? "";
  const name = named === "" && directory !== undefined ? await currentContext(directory, files) : named;
  if (name !== "" && name !== "default") {
    const place =
      named === ""
        ? `"currentContext" of ${join(directory ?? "", "config.json")}`
        : 'environment variable "DOCKER_CONTEXT"';
    return readContext(name, directory, place, files);
  }
  if (isWindows(environment)) return { endpoint: { kind: "unix", path: windowsPipe }, detail: "" };
  if (await files.isSocket(defaultPath)) return defaultEngine;
  const runtime = environment["XDG_RUNTIME_DIR"] ?? "";
  const home = homeOf(environment);
  const others: readonly (readonly [string, string])[] = [
    ...(home === "" ? [] : homeSockets.map(([path, what]) => [join(home, path), what] as const)),
    ...(runtime === "" ? [] : [[join(runtime, "docker.sock"), "rootless Docker"] as const]),
  ];
  for (const [path, what] of others)
    if (await files.isSocket(path)) return { endpoint: { kind: "unix", path }, detail: what };
  return defaultEngine;
}

function isWindows(environment: Environment): boolean {
  return environment["OS"] === "Windows_NT";
}

function homeOf(environment: Environment): string {
  return environment[isWindows(environment) ? "USERPROFILE" : "HOME"] ?? "";
}

const defaultEngine: FoundEngine = { endpoint: { kind: "unix", path: defaultPath }, detail: "" };

function configDirectory(environment: Environment): string | undefined {
  const given = environment["DOCKER_CONFIG"] ?? "";
  const home = homeOf(environment);
  if (given !== "") return given;
  return home === "" ? undefined : join(home, ".docker");
}

/** Empty without a file. One that cannot be read is as none: it is Docker's to complain about. */
async function currentContext(directory: string, files: ContextFiles): Promise<string> {
  try {
    const config: unknown = JSON.parse(await files.readFile(join(directory, "config.json")));
    return textAt(config, "currentContext") ?? "";
  } catch {
    return "";
  }
}

async function readContext(
  name: string,
  directory: string | undefined,
  place: string,
  { readFile }: ContextFiles,
): Promise<FoundEngine> {
  const fail = (reason: string): never => {
    const remedy = 'give --docker-endpoint, or "docker context use default"';
    throw new ShimError("invalid", `${place}: Docker context ${JSON.stringify(name)}: ${reason}; ${remedy}`);
  };
  if (directory === undefined) return fail("neither DOCKER_CONFIG nor a home directory is set");
  const id = createHash("sha256").update(name).digest("hex");
  const path = join(directory, "contexts/meta", id, "meta.json");
  let meta: unknown;
  try {
    meta = JSON.parse(await readFile(path));
  } catch (error) {
    return fail(`read "${path}": ${messageOf(error)}`);
  }
  const docker = fieldAt(fieldAt(meta, "Endpoints"), "docker");
  const host = textAt(docker, "Host");
  if (host === undefined || host === "") return fail("it has no endpoint of an engine");
  let endpoint: DockerEndpoint;
  try {
    endpoint = dockerEndpointKind.parse(host);
  } catch (error) {
    return fail(`${JSON.stringify(host)}: ${messageOf(error)}`);
  }
  const tlsDirectory = join(directory, "contexts/tls", id, "docker");
  const verify = fieldAt(docker, "SkipTLSVerify") !== true;
  return { endpoint, detail: `context ${JSON.stringify(name)}`, context: { name, tlsDirectory, verify } };
}

function fieldAt(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

function textAt(value: unknown, name: string): string | undefined {
  const field = fieldAt(value, name);
  return typeof field === "string" ? field : undefined;
}
