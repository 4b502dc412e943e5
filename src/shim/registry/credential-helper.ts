/** Docker's credential helpers: programs that hand out the credentials of one registry. */
import { execFile } from "node:child_process";
import { ShimError } from "../../lib/errors.js";
import type { RegistryCredentials } from "../ports/engine.js";
import { asObject, textOf } from "../../lib/json/json-readers.js";

/** As kubelets have it for their own credential providers. */
const helperTimeoutMs = 60_000;
const outputLimitBytes = 1024 * 1024;
/** Helpers answer a token with this in place of a user name. */
const tokenUser = "<token>";

/**
 * What `docker-credential-NAME get` answers for `server`; undefined when it knows none. Ends with `signal`
 * and after a minute. Its output is in no error: it may hold the secret.
 */
export async function askCredentialHelper(
  name: string,
  server: string,
  signal: AbortSignal | undefined,
): Promise<RegistryCredentials | undefined> {
  const action = `ask credential helper "${name}" for "${server}"`;
  // It becomes part of a program's name, looked up in PATH: nothing that leads elsewhere.
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    throw new ShimError("invalid", `${action}: not a helper's name`);
  }
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
