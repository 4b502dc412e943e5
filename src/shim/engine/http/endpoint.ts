/** Where the Docker Engine listens, and the key material for talking to it over TLS. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ShimError } from "../../lib/errors.js";

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

export type EngineEndpoint = UnixEndpoint | TcpEndpoint;

/** PEM texts. */
export interface TlsMaterial {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Whether the engine's certificate must be signed by `ca`. */
  readonly verify: boolean;
}

/** The environment variables with which Docker's own clients are told to use TLS. */
export interface TlsEnvironment {
  readonly DOCKER_TLS_VERIFY?: string | undefined;
  readonly DOCKER_CERT_PATH?: string | undefined;
  readonly HOME?: string | undefined;
}

/** `unix:///var/run/docker.sock` or `tcp://host:2376`. */
export function formatEndpoint(endpoint: EngineEndpoint): string {
  if (endpoint.kind === "unix") return `unix://${endpoint.path}`;
  const host = endpoint.host.includes(":") ? `[${endpoint.host}]` : endpoint.host;
  return `tcp://${host}:${endpoint.port}`;
}

/**
 * The files ca.pem, cert.pem and key.pem of DOCKER_CERT_PATH; undefined when the environment asks for no TLS.
 * As with Docker's clients the path alone switches TLS on, DOCKER_TLS_VERIFY (any value) makes the engine
 * prove itself, and without a path means `~/.docker`. A missing file is `invalid`: going on in plain text
 * would not be what was asked.
 */
export async function readTlsMaterial(environment: TlsEnvironment): Promise<TlsMaterial | undefined> {
  const verify = (environment.DOCKER_TLS_VERIFY ?? "") !== "";
  let directory = environment.DOCKER_CERT_PATH ?? "";
  if (directory === "") {
    if (!verify) return undefined;
    directory = join(environment.HOME ?? "/", ".docker");
  }
  const read = async (name: string): Promise<string> => {
    const path = join(directory, name);
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
  };
  // One after the other: of several that cannot be read, always the same one is named.
  const ca = await read("ca.pem");
  const cert = await read("cert.pem");
  const key = await read("key.pem");
  return { ca, cert, key, verify };
}
