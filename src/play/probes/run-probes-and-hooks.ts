/** Probes and lifecycle hooks, with the kubelet's rules (pkg/probe, pkg/kubelet/prober, pkg/kubelet/lifecycle). */
import { sleep, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { beginningOf } from "../../lib/streams.js";
import type { CriClient } from "../cri/client.js";
import { expandVariables } from "../pod-config/expand-variables.js";
import type { Dial } from "../cri/dial.js";
import type { LifecycleHandler, Probe, Container } from "../manifests/pod-schema.js";
import { checkHealth } from "./grpc-health.js";
import { getFrom, type HttpGet, httpTarget, portNumber, urlText } from "./http-get.js";

export interface HandlerDeps {
  readonly client: Pick<CriClient, "execSync">;
  /** How addresses of pods are reached. */
  readonly dial: Dial;
  /** Whether that through which pods are reached answers now: else a failure does not count. */
  readonly answers?: (signal: AbortSignal) => Promise<boolean>;
  /** Milliseconds of a clock without steps. */
  readonly uptime?: () => number;
}

/** The longest body, or output of a command, in messages. */
const outputBytes = 10 * 1024;
/** A probe that could not be made is made again at once. */
const mostAttempts = 3;
/** A probe that failed so long after its time limit was not given the time: all processes stood still meanwhile. */
const stoodStillMs = 5_000;

export function makeHandlers(deps: HandlerDeps): Handlers {
  const uptime = deps.uptime ?? (() => performance.now());
  return {
    async probe(probe, target, signal) {
      const seconds =
        probe.timeoutSeconds === undefined || probe.timeoutSeconds === 0 ? 1 : probe.timeoutSeconds;
      let isCertain = deps.answers === undefined;
      for (let attempt = 1; ; attempt += 1) {
        const startedAt = uptime();
        const outcome = await probeOnce(probe, target, seconds, deps, signal);
        // As after the pause of a virtual machine: the limit has passed before the answer could be read.
        const stoodStill = uptime() - startedAt > seconds * 1000 + stoodStillMs;
        if (stoodStill && outcome.result === "failure" && attempt < mostAttempts) continue;
        if (!isCertain && outcome.result === "failure") {
          if ((await deps.answers?.(signal)) !== true)
            return { result: "unknown", message: `${outcome.message}, and the CRI server stands still` };
          isCertain = true;
          continue;
        }
        if (outcome.result !== "unknown" || outcome.isFinal === true || attempt >= mostAttempts)
          return { result: outcome.result, message: outcome.message };
      }
    },
    runHook: (hook, target, signal) => runHook(hook, target, deps, signal),
  };
}

/** `isFinal`: another attempt would have no other outcome, or no time. */
type Attempt = ProbeOutcome & { readonly isFinal?: boolean };

const success = (message: string): Attempt => ({ result: "success", message });
const failure = (message: string): Attempt => ({ result: "failure", message });

async function probeOnce(
  probe: Probe,
  target: HandlerTarget,
  seconds: number,
  { client, dial }: HandlerDeps,
  signal: AbortSignal,
): Promise<Attempt> {
  // The CRI server limits the time of the command; the others end here.
  if (probe.exec !== undefined) return probeByExec(probe.exec.command, target, seconds, client, signal);
  try {
    return await withDeadline(signal, seconds * 1000, "probe", (limit) =>
      probeByNetwork(probe, target, dial, limit),
    );
  } catch (error) {
    signal.throwIfAborted();
    const message = messageOf(error);
    if (isKind(error, "timeout")) return failure(`timeout: no answer within ${seconds} s`);
    if (isKind(error, "unsupported", "invalid")) return { result: "unknown", message, isFinal: true };
    return failure(message);
  }
}

function probeByNetwork(
  probe: Probe,
  target: HandlerTarget,
  dial: Dial,
  signal: AbortSignal,
): Promise<Attempt> {
  const { httpGet, tcpSocket, grpc } = probe;
  if (httpGet !== undefined) return probeByHttp(httpGet, target, dial, signal);
  if (tcpSocket !== undefined) {
    const host = tcpSocket.host ?? "";
    const port = portNumber(tcpSocket.port, target.container);
    return probeByTcp({ host: host === "" ? target.podIp : host, port }, dial, signal);
  }
  if (grpc !== undefined) return probeByGrpc(grpc, target, dial, signal);
  throw new ShimError("invalid", "the probe has no handler");
}

async function probeByExec(
  command: readonly string[],
  { containerId, container }: HandlerTarget,
  seconds: number,
  client: HandlerDeps["client"],
  signal: AbortSignal,
): Promise<Attempt> {
  try {
    const answer = await client.execSync(containerId, expanded(command, container), seconds, signal);
    const output = textOf(answer);
    return answer.exit_code === 0 ? success(output) : failure(output);
  } catch (error) {
    signal.throwIfAborted();
    if (isKind(error, "timeout")) return failure(`the command has not ended after ${seconds} s`);
    return { result: "unknown", message: messageOf(error) };
  }
}

/** The kubelet knows only values that stand in the manifest here: others are empty. */
function expanded(command: readonly string[], { env = [] }: HandlerTarget["container"]): readonly string[] {
  const variables = new Map(env.map(({ name, value = "" }) => [name, value] as const));
  return command.map((word) => expandVariables(word, variables));
}

function textOf(answer: { readonly stdout: Uint8Array; readonly stderr: Uint8Array }): string {
  return Buffer.concat([answer.stdout, answer.stderr]).toString("utf8", 0, outputBytes);
}

async function probeByHttp(
  handler: HttpGet,
  { container, podIp }: HandlerTarget,
  dial: Dial,
  signal: AbortSignal,
): Promise<Attempt> {
  const target = httpTarget(handler, container, podIp, "probe");
  const { message, status, isRedirect } = await getFrom(target, dial, signal);
  let body: string;
  try {
    body = await beginningOf(message, outputBytes);
  } catch (error) {
    // As with the kubelet: an answer that breaks off says nothing.
    const isFinal = signal.aborted;
    return {
      result: "unknown",
      message: `read the answer of ${urlText(target)}: ${messageOf(error)}`,
      isFinal,
    };
  }
  if (isRedirect) return success(`the redirect to another host was not followed (status ${status})`);
  // The body may have what only the program's users may see.
  return status >= 200 && status < 300
    ? success(body)
    : failure(`HTTP probe failed with statuscode: ${status}`);
}

async function probeByTcp(
  address: { readonly host: string; readonly port: number },
  dial: Dial,
  signal: AbortSignal,
): Promise<Attempt> {
  (await dial(address, signal)).destroy();
  return success("");
}

async function probeByGrpc(
  { port, service = "" }: NonNullable<Probe["grpc"]>,
  { podIp }: HandlerTarget,
  dial: Dial,
  signal: AbortSignal,
): Promise<Attempt> {
  const status = await checkHealth({ host: podIp, port }, service, dial, signal);
  return status === "SERVING"
    ? success("service healthy")
    : failure(`service unhealthy (responded with "${status}")`);
}

async function runHook(
  hook: LifecycleHandler,
  target: HandlerTarget,
  { client, dial }: HandlerDeps,
  signal: AbortSignal,
): Promise<void> {
  if (hook.exec !== undefined) {
    const { command } = hook.exec;
    const answer = await client.execSync(target.containerId, command, 0, signal);
    if (answer.exit_code === 0) return;
    const said = textOf(answer).trim();
    throw new ShimError(
      "precondition",
      `run ${JSON.stringify(command)}: exit code ${answer.exit_code}${said === "" ? "" : `: ${said}`}`,
    );
  }
  if (hook.httpGet !== undefined) {
    await requestHook(hook.httpGet, target, dial, signal);
    return;
  }
  if (hook.sleep !== undefined) {
    await sleep(hook.sleep.seconds * 1000, signal);
    return;
  }
  throw new ShimError("unsupported", "run the hook: it has no handler that a hook can have");
}

/** Any answer is success, also a status of an error. */
async function requestHook(
  handler: HttpGet,
  target: HandlerTarget,
  dial: Dial,
  signal: AbortSignal,
): Promise<void> {
  const request = httpTarget(handler, target.container, target.podIp, "lifecycle");
  try {
    (await getFrom(request, dial, signal)).message.destroy();
  } catch (error) {
    if (request.scheme !== "https" || !spokeNoTls(error)) throw error;
    // The kubelet once sent HTTP where HTTPS was asked for, and pods came to depend on it.
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => name.toLowerCase() !== "authorization"),
    );
    (await getFrom({ ...request, scheme: "http", headers }, dial, signal)).message.destroy();
  }
}

function spokeNoTls(error: unknown): boolean {
  const cause: unknown = error instanceof ShimError ? error.cause : undefined;
  return cause instanceof Error && cause.message.includes("wrong version number");
}

/** The running container that a probe or a hook is for. */
export interface HandlerTarget {
  readonly containerId: string;
  readonly container: Container;
  /** The pod's address, for handlers without a host; the node's on the host network. */
  readonly podIp: string;
}

/** `unknown`: the probe could not be made; the kubelet leaves the counters as they are. */
export interface ProbeOutcome {
  readonly result: "success" | "failure" | "unknown";
  /** For events: `HTTP probe failed with statuscode: 500`. */
  readonly message: string;
}

/** What the kubelet's loop asks of probes and lifecycle hooks. */
export interface Handlers {
  /** Ends within the probe's timeoutSeconds (1 unless given). Rejects only when `signal` aborts. */
  probe(probe: Probe, target: HandlerTarget, signal: AbortSignal): Promise<ProbeOutcome>;
  /** Rejects with a ShimError that says what the hook answered. Its limit is the caller's signal. */
  runHook(hook: LifecycleHandler, target: HandlerTarget, signal: AbortSignal): Promise<void>;
}
