/** What `dockershim play` is told. */
import { ShimError } from "../lib/errors.js";
import { listenEndpointKind, type UnixEndpoint } from "../config/endpoints.js";
import type { Environment } from "../config/environment.js";
import { environmentName } from "../config/option.js";
import { options } from "../config/options.js";

export interface PlayOptions {
  readonly files: readonly string[];
  /** Follow the containers' logs until they end or the user interrupts. */
  readonly follow: boolean;
  /** Remove the pods of the files instead of running them. */
  readonly down: boolean;
  /** Leave what was made when a pod fails. */
  readonly keep: boolean;
  /** Where the CRI is served. */
  readonly endpoint: UnixEndpoint;
}

const served = options.containerRuntimeEndpoint;
const variable = environmentName(served.name);

/** For `--help`. */
export const playEndpointHelp = `CRI socket (default: ${variable}, else ${served.default})`;

/** The socket to connect to: the flag, else where the environment or the default has `serve` listen. */
export function resolvePlayEndpoint(given: string | undefined, environment: Environment): UnixEndpoint {
  const text = given ?? environment[variable] ?? served.default;
  const place = given === undefined ? `environment variable "${variable}"` : 'flag "--endpoint"';
  let endpoint;
  try {
    endpoint = listenEndpointKind.parse(text);
  } catch (error) {
    throw ShimError.from(error).within(`${place}: ${JSON.stringify(text)}`);
  }
  if (endpoint.kind === "unix") return endpoint;
  throw new ShimError("invalid", `${place}: ${JSON.stringify(text)}: names no socket to connect to`);
}
