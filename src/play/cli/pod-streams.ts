/** The commands of `dockershim pod` that open a stream into a pod: exec, attach, port-forward, cp. */
import { lstat } from "node:fs/promises";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { ReadStream, WriteStream } from "node:tty";
import { dialStreamsOf } from "../cri/dial.js";
import {
  packCommand,
  packInto,
  unpackCommand,
  unpackFrom,
  uploadTarget,
} from "../pod-commands/copy-files.js";
import { findPod } from "../pod-commands/find-pod.js";
import { forwardPorts } from "../pod-commands/forward-ports.js";
import { type TerminalSize, runCommand } from "../streams/run-command.js";
import { PodSandboxState } from "../../domain/cri.js";
import { linkAbort, sleep, inBackground } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { ConnectedClient } from "../cri/client.js";
import { shownText } from "../../lib/shown-text.js";
import { rawTerminal } from "./raw-terminal.js";
import { chosenContainer, type PodContext, type RequestOf } from "./pod-context.js";

/** `exec` and `attach`. The exit code is the command's. */
export async function streamCommand(
  request: RequestOf<"exec" | "attach">,
  context: PodContext,
): Promise<number> {
  const { client, stdin, stdout, stderr, signal, report } = context;
  const pod = await findPod(client, request.pod, signal, report);
  const status = await chosenContainer(pod, request.container, context);
  const terminal =
    stdin instanceof ReadStream && stdout instanceof WriteStream ? { stdin, stdout } : undefined;
  const tty = request.tty && request.stdin && terminal !== undefined;
  if (request.tty && !tty)
    report("no terminal is used: standard input or output is none, or --stdin is missing");
  const streams = { container_id: status.id, tty, stdin: request.stdin, stdout: true, stderr: !tty };
  const url =
    request.verb === "exec"
      ? await client.execUrl({ ...streams, cmd: request.command }, signal)
      : await client.attachUrl(streams, signal);
  using _ = tty ? rawTerminal(terminal.stdin) : undefined;
  try {
    return await runCommand(
      { url, tty },
      {
        stdout,
        ...(request.stdin ? { stdin } : {}),
        ...(tty ? { sizes: sizesOf(terminal.stdout) } : { stderr }),
      },
      dialStreamsOf(context.endpoint),
      signal,
    );
  } finally {
    // Else the process waits for more input.
    if (request.stdin) stdin.destroy();
  }
}

export async function portForward(request: RequestOf<"port-forward">, context: PodContext): Promise<number> {
  const { client, signal, report } = context;
  const { sandbox } = await findPod(client, request.pod, signal, report);
  const url = (port: number): Promise<string> => client.portForwardUrl(sandbox.id, [port], signal);
  const ending = new AbortController();
  using _ = linkAbort(signal, () => ending.abort(signal.reason));
  const isGone = inBackground(whenGone(sandbox.id, client, ending));
  const deps = { dial: dialStreamsOf(context.endpoint), url, report };
  await forwardPorts(request.pairs, request.addresses, deps, ending.signal).finally(() => ending.abort());
  if (await isGone) throw new ShimError("unavailable", "lost connection to pod");
  return 0;
}

const lookMs = 1000;

/** Aborts `ending` when the sandbox has ended, and answers whether it has. A server that does not answer may come back. */
async function whenGone(
  id: string,
  client: Pick<ConnectedClient, "podSandboxStatus">,
  ending: AbortController,
): Promise<boolean> {
  const { signal } = ending;
  const isThere = async (): Promise<boolean> => {
    try {
      return (await client.podSandboxStatus(id, signal)).state === PodSandboxState.SANDBOX_READY;
    } catch (error) {
      return !isKind(error, "notFound");
    }
  };
  while (await isThere()) {
    if (!signal.aborted) await sleep(lookMs, signal).catch(() => undefined);
    if (signal.aborted) return false;
  }
  ending.abort();
  return true;
}

/** Runs `cmd` without a terminal. What it says on standard error is reported, escaped. */
async function runQuietly(
  id: string,
  cmd: readonly string[],
  streams: { readonly stdin?: Readable; readonly stdout?: Writable },
  { client, endpoint, signal, report }: PodContext,
): Promise<number> {
  const stderr = new PassThrough();
  const output = { stdout: streams.stdout !== undefined, stderr: true, stdin: streams.stdin !== undefined };
  const url = await client.execUrl({ container_id: id, cmd, tty: false, ...output }, signal);
  let said = "";
  stderr.on("data", (chunk: Buffer) => {
    if (said.length < 4096) said += chunk.toString();
  });
  try {
    return await runCommand({ url, tty: false }, { ...streams, stderr }, dialStreamsOf(endpoint), signal);
  } finally {
    for (const line of said.split("\n").filter((text) => text !== "")) report(shownText(line));
  }
}

export async function copyFrom(request: RequestOf<"cp">, context: PodContext): Promise<number> {
  const pod = await findPod(context.client, request.pod, context.signal, context.report);
  const status = await chosenContainer(pod, request.container, context);
  if (request.local === "-") {
    if (context.stdout instanceof WriteStream)
      throw new ShimError("invalid", "an archive is not written to a terminal: use a pipe or a file");
    const { stdout } = context;
    return (await runQuietly(status.id, packCommand(request.remote), { stdout }, context)) === 0 ? 0 : 1;
  }
  const archive = new PassThrough();
  const written = unpackFrom(archive, request.remote, request.local, context.report);
  const packed = runQuietly(status.id, packCommand(request.remote), { stdout: archive }, context).then(
    (code) => {
      archive.end();
      return code;
    },
    (error: unknown) => {
      archive.destroy(ShimError.from(error));
      throw error;
    },
  );
  const [code, files] = await Promise.all([packed, written]);
  if (code === 0 && files > 0) return 0;
  if (code === 0) context.report("no file was copied");
  return code === 0 ? 0 : 1;
}

export async function copyTo(request: RequestOf<"cp">, context: PodContext): Promise<number> {
  const { client, signal } = context;
  const isArchive = request.local === "-";
  if (!isArchive) await requireFile(request.local); // So that this is the first error.
  const pod = await findPod(client, request.pod, signal, context.report);
  const status = await chosenContainer(pod, request.container, context);
  if (isArchive) return copyArchive(status.id, request.remote, context);
  const { exit_code: isDirectory } = await client.execSync(
    status.id,
    ["test", "-d", request.remote],
    60,
    signal,
  );
  const { directory, name } = uploadTarget(request.local, request.remote, { isDirectory: isDirectory === 0 });
  const archive = packInto(request.local, name, context.report);
  let failure: unknown;
  archive.once("error", (error) => (failure = error));
  const code = await runQuietly(status.id, unpackCommand(directory), { stdin: archive }, context);
  if (failure !== undefined) throw ShimError.from(failure);
  return code === 0 ? 0 : 1;
}

/** From standard input. */
async function copyArchive(id: string, target: string, context: PodContext): Promise<number> {
  const { stdin } = context;
  try {
    return (await runQuietly(id, unpackCommand(target), { stdin }, context)) === 0 ? 0 : 1;
  } finally {
    stdin.destroy(); // Else the process waits for more input.
  }
}

async function requireFile(path: string): Promise<void> {
  try {
    await lstat(path);
  } catch (error) {
    const reason = hasCode(error, "ENOENT") ? "there is no such file" : messageOf(error);
    throw new ShimError("invalid", `read "${shownText(path)}": ${reason}`, {}, { cause: error });
  }
}

/** Node.js emits "resize" at SIGWINCH. */
function sizesOf(stdout: WriteStream) {
  return (changed: (size: TerminalSize) => void): (() => void) => {
    const sendSize = (): void => changed({ width: stdout.columns, height: stdout.rows });
    sendSize();
    stdout.on("resize", sendSize);
    return () => stdout.off("resize", sendSize);
  };
}
