/** The node's own registry credentials, for the images that the shim itself needs. */
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { Logger } from "../../lib/log.js";
import { parseReference } from "../../domain/image-reference.js";
import type { RegistryCredentials } from "../ports/engine.js";
import { askCredentialHelper } from "./credential-helper.js";
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
      if (status.size > fileLimitBytes) {
        throw new ShimError("invalid", `larger than ${fileLimitBytes} bytes`);
      }
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
