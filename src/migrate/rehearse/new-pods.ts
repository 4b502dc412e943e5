/** One of everything new, through the CRI: a pod, a container, sessions, and the restart of an adopted container. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { request } from "node:http";
import type { CriConnection } from "../../client/cri-connection.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { type MadePod, rehearsalLabel } from "./scratch-pods.js";
import type { Problem } from "./verdict.js";

const missing = ["/dockershim-no-such-program"];
const closedPort = 9;
const sessionMs = 30_000;

export interface NewOptions {
  readonly directory: string;
  /** Has the program /pause. */
  readonly image: string;
  /** One of whose containers is restarted. */
  readonly adopted?: MadePod | undefined;
  /** `pod`: a pod, which is removed again. */
  readonly only?: "pod";
}

export interface NewResult {
  /** Sandboxes and containers. */
  readonly ids: readonly string[];
  /** The new pod that stays. */
  readonly sandbox?: { readonly id: string; readonly namespace: string; readonly name: string };
  readonly did: string;
  readonly problems: readonly Problem[];
}

export async function makeNew(
  cri: CriConnection,
  options: NewOptions,
  signal: AbortSignal,
): Promise<NewResult> {
  const { directory, image, adopted, only } = options;
  const ids: string[] = [];
  const did: string[] = [];
  const problems: Problem[] = [];
  const labels = { [rehearsalLabel]: directory };
  const limited = (): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(sessionMs)]);
  const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
      did.push(what);
    } catch (error) {
      signal.throwIfAborted();
      problems.push({ subject: "rehearsal", text: `${what}: ${messageOf(error)}` });
    }
  };
  const config = {
    metadata: {
      name: "rehearsal",
      namespace: "dockershim-rehearsal",
      uid: `rehearsal-${only ?? "all"}`,
      attempt: 0,
    },
    log_directory: join(directory, "logs"),
    labels,
    linux: {},
  };
  const container = (name: string, number: number): object => ({
    metadata: { name, attempt: number },
    image: { image },
    command: ["/pause"],
    log_path: `${name}-${number}.log`,
    labels,
    linux: {},
  });
  const run = async (sandboxId: string, of: object, made: object): Promise<string> => {
    const request = { pod_sandbox_id: sandboxId, config: made, sandbox_config: of };
    const { container_id: id } = await cri.call("CreateContainer", request, { signal });
    ids.push(id);
    await cri.call("StartContainer", { container_id: id }, { signal });
    return id;
  };

  const { pod_sandbox_id: sandboxId } = await cri.call("RunPodSandbox", { config }, { signal });
  if (only === "pod") {
    await cri.call("StopPodSandbox", { pod_sandbox_id: sandboxId }, { signal });
    await cri.call("RemovePodSandbox", { pod_sandbox_id: sandboxId }, { signal });
    return { ids: [], did: "a pod", problems };
  }
  ids.push(sandboxId);
  did.push("a pod");
  let id = "";
  await attempt("a container", async () => {
    id = await run(sandboxId, config, container("new", 0));
  });
  await attempt("an exec", async () => {
    // The image has no program that ends by itself: the answer to a missing one shows that exec works.
    const request = { container_id: id, cmd: missing, timeout: "10" };
    const { exit_code } = await cri.call("ExecSync", request, { signal });
    if (exit_code !== 126 && exit_code !== 127)
      throw new Error(`exit code ${exit_code} for a missing program`);
  });
  await attempt("a streamed exec", async () => {
    const request = { container_id: id, cmd: missing, stdout: true, stderr: true };
    const { url } = await cri.call("Exec", request, { signal });
    await streamOnce(url, /exit code 12[67]|no such file/, limited());
  });
  await attempt("a port-forward", async () => {
    // No process listens there: the refusal comes from inside of the pod.
    const request = { pod_sandbox_id: sandboxId, port: [closedPort] };
    const { url } = await cri.call("PortForward", request, { signal });
    await streamOnce(url, /refused/, limited());
  });
  await attempt("a log", async () => {
    await stat(join(directory, "logs", "new-0.log"));
    await cri.call("ReopenContainerLog", { container_id: id }, { signal });
  });
  await attempt("statistics", async () => {
    const { stats } = await cri.call("ContainerStats", { container_id: id }, { signal });
    if (stats?.attributes?.id !== id) throw new Error("they are of no container");
    await cri.call("PodSandboxStats", { pod_sandbox_id: sandboxId }, { signal });
  });
  const [old] = adopted?.containers ?? [];
  if (adopted !== undefined && old !== undefined) {
    await attempt("a restart in an adopted pod", async () => {
      const { metadata } = adopted.recorded.config;
      const name = old.recorded.config.metadata?.name ?? "";
      // The recording may have several attempts of one container.
      const attempts = adopted.containers.map(({ recorded }) => recorded.config.metadata);
      const last = Math.max(...attempts.filter((one) => one?.name === name).map((one) => one?.attempt ?? 0));
      // Without the cgroup of the recorded node, which would stay on this host.
      const of = { metadata, log_directory: join(directory, "logs"), linux: {} };
      await run(adopted.id, of, container(name, last + 1));
    });
  }
  const { name, namespace } = config.metadata;
  const sandbox = { id: sandboxId, namespace, name };
  return { ids, sandbox, did: `${did.join(", ")} were made`, problems };
}

/** One streaming session as a client that only listens. */
const largestAnswerBytes = 64 * 1024;

/** Returns when the frames of the WebSocket have `wanted`; throws when the session ends without it. */
export function streamOnce(url: string, wanted: RegExp, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": "v4.channel.k8s.io",
    };
    const fail = (why: string): void =>
      reject(new ShimError("unavailable", `session at the streaming server: ${why}`));
    const asked = request(url, { headers, signal });
    asked.once("error", (error) => fail(error.message));
    asked.once("response", (response) => {
      response.destroy();
      fail(`HTTP status ${response.statusCode ?? 0}`);
    });
    asked.once("upgrade", (_response, socket, head) => {
      let received = Buffer.alloc(0);
      const receive = (data: Buffer): void => {
        received = Buffer.concat([received, data]);
        if (wanted.test(received.toString())) resolve();
        else if (received.length <= largestAnswerBytes) return;
        socket.destroy();
      };
      socket.on("data", receive);
      socket.once("error", (error) => fail(error.message));
      socket.once("close", () => fail(`it ended after ${JSON.stringify(received.toString().slice(0, 200))}`));
      const stop = (): void => void socket.destroy();
      signal.addEventListener("abort", stop, { once: true });
      socket.once("end", stop);
      // Frames that came in one packet with the answer to the request.
      receive(head);
    });
    asked.end();
  });
}
