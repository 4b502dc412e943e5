/** The node's own registry credentials, for the images that the shim itself needs. */
import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import { asObject, textOf } from "../../lib/json/json-readers.js";
import type { Logger } from "../../lib/log.js";
import { parseReference } from "../../domain/image-reference.js";
import type { RegistryCredentials } from "../ports/engine.js";
import {
  type DockerConfig,
  isHubImage,
  matchingEntries,
  parseDockerConfig,
  parseLegacyDockerConfig,
} from "./docker-config.js";

export interface RegistryCredentialStoreOptions {
  /** Searched first; the kubelet's is /var/lib/kubelet. */
  readonly directory?: string | undefined;
  /** That of the process, unless given. */
  readonly workingDirectory?: string;
  /** That of the user, unless given; empty for none. */
  readonly homeDirectory?: string;
  readonly log: Pick<Logger, "warn" | "debug">;
}

type Parser = (text: string) => DockerConfig;

const fileLimitBytes = 1024 * 1024;
/** Under which credential helpers know Docker Hub. */
const hubServer = "https://index.docker.io/v1/";

/**
 * Credentials from Docker's configuration files, found where the kubelet's dockershim looked for them. Files
 * are read anew when they change; a bad one is logged once and passed over. Helpers are asked each time,
 * tokens expire.
 */
export class RegistryCredentialStore {
  readonly #files = new Map<
    string,
    { readonly version: string; readonly config: DockerConfig | undefined }
  >();

  constructor(private readonly options: RegistryCredentialStoreOptions) {}

  /**
   * All credentials for the image, to be tried in this order: that of the registry's helper, then the
   * matching entries of the file, longest path first. Empty when there are none. A failing helper is logged.
   */
  async lookUp(reference: string, signal?: AbortSignal): Promise<readonly RegistryCredentials[]> {
    const image = parseReference(reference);
    const config = await this.#firstConfig(signal);
    if (image === undefined || config === undefined) return [];
    const helped = await this.#askHelper(config, image.registry, image.repository, signal);
    const entries = matchingEntries(config.entries, image.repository).map((entry) => entry.credentials);
    return helped === undefined ? entries : [helped, ...entries];
  }

  async #askHelper(
    config: DockerConfig,
    registry: string,
    repository: string,
    signal: AbortSignal | undefined,
  ): Promise<RegistryCredentials | undefined> {
    const hub = isHubImage(repository);
    const named = config.helpers.get(registry) ?? (hub ? config.helpers.get("index.docker.io") : undefined);
    const helper = named ?? config.store;
    if (helper === undefined) return undefined;
    try {
      return await askCredentialHelper(helper, hub ? hubServer : registry, signal);
    } catch (error) {
      if (signal?.aborted === true) throw error;
      this.options.log.warn({ registry, err: messageOf(error) }, "credential helper failed");
      return undefined;
    }
  }

  /** The first file that can be read: one without an entry for the image hides those behind it. */
  async #firstConfig(signal: AbortSignal | undefined): Promise<DockerConfig | undefined> {
    for (const [path, parse] of this.#candidates()) {
      const config = await this.#read(path, parse);
      if (signal?.aborted === true) throw ShimError.from(signal.reason);
      if (config !== undefined) return config;
    }
    return undefined;
  }

  #candidates(): ReadonlyMap<string, Parser> {
    const { directory = "", workingDirectory = process.cwd(), homeDirectory = homedir() } = this.options;
    const own = [directory, workingDirectory].filter((path) => path !== "");
    const home = homeDirectory === "" ? [] : [homeDirectory];
    const paths = (directories: readonly string[], name: string, parse: Parser): [string, Parser][] =>
      directories.map((base) => [join(base, name), parse]);
    return new Map([
      ...paths(
        [...own, ...home.map((path) => join(path, ".docker")), "/.docker"],
        "config.json",
        parseDockerConfig,
      ),
      ...paths([...own, ...home, "/"], ".dockercfg", parseLegacyDockerConfig),
    ]);
  }

  async #read(path: string, parse: Parser): Promise<DockerConfig | undefined> {
    let version = "";
    let config: DockerConfig | undefined;
    try {
      const status = await stat(path);
      version = [status.ino, status.mtimeMs, status.size].join();
      const known = this.#files.get(path);
      if (known?.version === version) return known.config;
      if (!status.isFile()) throw new ShimError("invalid", "not a regular file");
      if (status.size > fileLimitBytes) throw new ShimError("invalid", `larger than ${fileLimitBytes} bytes`);
      config = parse(await readFile(path, "utf8"));
    } catch (error) {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
      this.options.log.warn(
        { path, err: messageOf(error) },
        "cannot read registry credentials, file ignored",
      );
    }
    this.#files.set(path, { version, config });
    return config;
  }
}

// Docker's credential helpers: programs that hand out the credentials of one registry.

/** As kubelets have it for their own credential providers. */
const helperTimeoutMs = 60_000;
const outputLimitBytes = 1024 * 1024;
/** Helpers answer a token with this in place of a user name. */
const tokenUser = "<token>";

/**
 * What `docker-credential-NAME get` answers for `server`; undefined when it knows none. Ends with `signal`
 * and after a minute. Its output is in no error: it may hold the secret.
 */
async function askCredentialHelper(
  name: string,
  server: string,
  signal: AbortSignal | undefined,
): Promise<RegistryCredentials | undefined> {
  const action = `ask credential helper "${name}" for "${server}"`;
  // It becomes part of a program's name, looked up in PATH: nothing that leads elsewhere.
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
    throw new ShimError("invalid", `${action}: not a helper's name`);
  const output = await run(`docker-credential-${name}`, server, action, signal);
  if (output === undefined) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(output);
  } catch {
    throw new ShimError("unknown", `${action}: its answer is not JSON`);
  }
  const username = textOf(asObject(json), "Username");
  const secret = textOf(asObject(json), "Secret");
  if (secret === "") return undefined;
  return username === tokenUser ? { identityToken: secret } : { username, password: secret };
}

async function run(
  program: string,
  input: string,
  action: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const options = {
      encoding: "utf8",
      timeout: helperTimeoutMs,
      killSignal: "SIGKILL",
      maxBuffer: outputLimitBytes,
      ...(signal === undefined ? {} : { signal }),
    } as const;
    const child = execFile(program, ["get"], options, (error, stdout) => {
      if (error === null) resolve(stdout);
      else if (signal?.aborted === true) reject(ShimError.from(signal.reason));
      else if (/credentials not found/i.test(stdout)) resolve(undefined);
      else reject(new ShimError("unavailable", `${action}: ${describeFailure(error)}`));
    });
    // One that does not read its input, or could not be started, is judged by its exit.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });
}

function describeFailure(error: Error & { readonly code?: unknown; readonly killed?: boolean }): string {
  if (error.code === "ENOENT") return "no such program in PATH";
  if (error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") return "its answer is too long";
  if (error.killed === true) return `no answer after ${helperTimeoutMs / 1000}s`;
  return typeof error.code === "number" ? `exit code ${error.code}` : "it could not be run";
}
