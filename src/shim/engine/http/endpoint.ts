/** Where the Docker Engine listens, and the key material for talking to it over TLS. */
import { formatSocketPath } from "../../../lib/unix-socket.js";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { hasCode } from "../../../lib/files/file-errors.js";

export interface UnixEndpoint {
  readonly kind: "unix";
  /** Absolute. */
  readonly path: string;
}

export interface TcpEndpoint {
  readonly kind: "tcp";
  /** Host name or IP address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Without it the connection is plain text. */
  readonly tls?: TlsMaterial;
}

/** Another host's engine, by the program `ssh`. */
export interface SshEndpoint {
  readonly kind: "ssh";
  readonly user?: string;
  readonly host: string;
  readonly port?: number;
  /** Of the socket there; undefined: as the docker command there finds it. */
  readonly path?: string;
}

export type EngineEndpoint = (UnixEndpoint | TcpEndpoint | SshEndpoint) & {
  /** Name of the context of Docker's command line that has it. */
  readonly context?: string;
};

/** PEM texts. */
export interface TlsMaterial {
  /** Without it the system's authorities count. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** Whether the engine's certificate must be signed by an authority. */
  readonly verify: boolean;
}

/** The environment variables with which Docker's own clients are told to use TLS. */
export interface TlsEnvironment {
  readonly DOCKER_TLS_VERIFY?: string | undefined;
  readonly DOCKER_CERT_PATH?: string | undefined;
  readonly DOCKER_CONFIG?: string | undefined;
  readonly HOME?: string | undefined;
}

/** `unix:///var/run/docker.sock`, `tcp://host:2376` or `ssh://user@host`, with the context. */
export function formatEndpoint(endpoint: EngineEndpoint): string {
  const address = formatAddress(endpoint);
  return endpoint.context === undefined
    ? address
    : `${address} (context ${JSON.stringify(endpoint.context)})`;
}

function formatAddress(endpoint: EngineEndpoint): string {
  if (endpoint.kind === "unix") return formatSocketPath(endpoint.path);
  const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
  if (endpoint.kind === "tcp") return `tcp://${host}:${endpoint.port}`;
  const { user, port, path = "" } = endpoint;
  return `ssh://${user === undefined ? "" : `${user}@`}${host}${port === undefined ? "" : `:${port}`}${path}`;
}

/**
 * The files ca.pem, cert.pem and key.pem of DOCKER_CERT_PATH; undefined when the environment asks for no TLS.
 * As with Docker's clients the path alone switches TLS on, DOCKER_TLS_VERIFY (any value) makes the engine
 * prove itself, and without a path means Docker's configuration directory. A missing file is `invalid`: going
 * on in plain text would not be what was asked.
 */
export async function readTlsMaterial(environment: TlsEnvironment): Promise<TlsMaterial | undefined> {
  const verify = (environment.DOCKER_TLS_VERIFY ?? "") !== "";
  let directory = environment.DOCKER_CERT_PATH ?? "";
  if (directory === "") {
    if (!verify) return undefined;
    const { DOCKER_CONFIG: configuration = "", HOME: home = "/" } = environment;
    directory = configuration === "" ? join(home, ".docker") : configuration;
  }
  // One after the other: of several that cannot be read, always the same one is named.
  const ca = await readPem(join(directory, "ca.pem"));
  const cert = await readPem(join(directory, "cert.pem"));
  const key = await readPem(join(directory, "key.pem"));
  return { ca, cert, key, verify };
}

/**
 * The files of a context; undefined when it has none, which means plain text. A certificate without its key, and
 * files that cannot be read, are `invalid`.
 */
export async function readContextTls(
  directory: string,
  { name, verify }: { readonly name: string; readonly verify: boolean },
): Promise<TlsMaterial | undefined> {
  const named = async <T>(reading: Promise<T>): Promise<T> => {
    try {
      return await reading;
    } catch (error) {
      const { message, kind } = ShimError.from(error);
      const next = `"docker context update ${name}" writes its files, "docker context use default" leaves it`;
      throw new ShimError(
        kind,
        `Docker context ${JSON.stringify(name)}: ${message}; ${next}`,
        {},
        { cause: error },
      );
    }
  };
  const files = await named(filesOf(directory));
  if (files.size === 0) return undefined;
  const read = (file: string): Promise<string> => named(readPem(join(directory, file)));
  const isClient = files.has("cert.pem") || files.has("key.pem");
  return {
    ...(files.has("ca.pem") ? { ca: await read("ca.pem") } : {}),
    ...(isClient ? { cert: await read("cert.pem"), key: await read("key.pem") } : {}),
    verify,
  };
}

/** Only a directory that is missing has none: another one may have files that must not be passed over. */
async function filesOf(directory: string): Promise<ReadonlySet<string>> {
  try {
    return new Set(await readdir(directory));
  } catch (error) {
    if (hasCode(error, "ENOENT")) return new Set();
    throw new ShimError(
      "invalid",
      `read TLS files of "${directory}": ${messageOf(error)}`,
      { path: directory },
      { cause: error },
    );
  }
}

async function readPem(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new ShimError(
      "invalid",
      `read TLS file "${path}": ${messageOf(error)}`,
      { path },
      { cause: error },
    );
  }
}
