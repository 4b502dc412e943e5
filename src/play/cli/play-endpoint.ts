/** The flag `--endpoint` of the commands that are clients of a CRI server. */
import { parseUnixEndpoint, type UnixEndpoint } from "../../shim/config/endpoints.js";
import type { Environment } from "../../shim/config/given.js";
import { environmentName } from "../../shim/config/option.js";
import { options } from "../../shim/config/options.js";
import { socketOf } from "../pod-config/pod-paths.js";
import { ShimError } from "../../lib/errors.js";

const served = options.containerRuntimeEndpoint;
const variable = environmentName(served.name);

/** The flag that a command line for the socket at `path` needs, with a space before it; empty for the default. */
export function endpointFlag(path: string): string {
  return isDefaultEndpoint(path) ? "" : ` --endpoint=${path}`;
}

/** `endpoint`: `unix:///PATH`, or the path alone. */
export function isDefaultEndpoint(endpoint: string): boolean {
  return socketOf(endpoint) === socketOf(served.default);
}

/** For `--help`. */
export const playEndpointHelp = `CRI socket (default: ${variable}, else ${served.default})`;

/** The socket to connect to: the flag, else the endpoint of `serve` by environment or default. */
export function resolvePlayEndpoint(
  given: string | undefined,
  environment: Environment,
  flag = "--endpoint",
): UnixEndpoint {
  const text = given ?? environment[variable] ?? served.default;
  const source = given === undefined ? `environment variable "${variable}"` : `flag "${flag}"`;
  try {
    return parseUnixEndpoint(text);
  } catch (error) {
    throw ShimError.from(error).within(`${source}: ${JSON.stringify(text)}`);
  }
}
