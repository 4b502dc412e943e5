/** Calls of a kubelet and a server that answers them, for the tests of `replay`. */
import type { TestContext } from "node:test";
import { compareAnswers } from "../../../../src/compare/answers/compare-answers.js";
import { newReport } from "../../../../src/compare/observe-calls.js";
import type { RecordedCall } from "../../../../src/compare/record/recording.js";
import { replay, type Replayed } from "../../../../src/compare/replay/replay.js";
import { ReportBuilder, type ShadowReport } from "../../../../src/compare/shadow/shadow-report.js";
import { temporaryDirectory } from "../grpc-peers.js";

export const id = (letter: string): string => letter.repeat(64);
export const [pod, container] = [id("a"), id("b")];

const mounts = [
  { host_path: "/present", container_path: "/p" },
  { host_path: "/absent", container_path: "/a" },
];
const log_directory = "/var/log/pods/p";
const image = { image: id("1"), user_specified_image: "busybox" };
const config = { image, envs: [{ key: "A", value: "redacted:1" }], mounts };
const podConfig = { metadata: { name: "p" }, log_directory, linux: { cgroup_parent: "/x" } };
const made = { id: container, metadata: { name: "c", attempt: 0 }, state: 1, created_at: "5", mounts };
const ofContainer = { container_id: container };

/** The calls of one pod, as a kubelet makes them. */
export const podCalls: readonly RecordedCall[] = [
  {
    ...{ at: 0, ms: 100, rpc: "RunPodSandbox" },
    ...{ request: { config: podConfig }, response: { pod_sandbox_id: pod } },
  },
  {
    ...{ at: 110, ms: 10, rpc: "CreateContainer", response: ofContainer },
    request: { pod_sandbox_id: pod, config, sandbox_config: { log_directory } },
  },
  { at: 130, ms: 5, rpc: "StartContainer", request: ofContainer, response: {} },
  {
    ...{ at: 140, ms: 5, rpc: "ContainerStatus", request: ofContainer },
    response: { status: { ...made, log_path: `${log_directory}/c.log` } },
  },
  { at: 150, ms: 1, rpc: "StopContainer", request: ofContainer, error: { code: 5, message: `no ${pod}` } },
  { at: 160, ms: 1, rpc: "ContainerStatus", request: { container_id: id("f") }, response: {} },
  { at: 170, ms: 1, rpc: "RemoveImage", request: { image: { image: "x" } }, response: {} },
];

export interface Server {
  readonly asked: [rpc: string, request: Record<string, unknown>][];
  readonly ask: (rpc: string, request: object, signal?: AbortSignal) => Promise<object>;
}

/** A server that answers after a while, with ids of its own, and has the image by its name alone. */
export function server(state = 1): Server {
  const asked: Server["asked"] = [];
  let logs = "";
  return {
    asked,
    ask: async (rpc, request) => {
      asked.push([rpc, request as Record<string, unknown>]);
      await new Promise((resolve) => setTimeout(resolve, 5));
      switch (rpc) {
        case "RunPodSandbox":
          logs = (request as { config: { log_directory: string } }).config.log_directory;
          return { pod_sandbox_id: id("c") };
        case "CreateContainer":
          return { container_id: id("d") };
        case "ImageStatus":
          return {
            image: (request as { image: { image: string } }).image.image === "busybox" ? { id: "i" } : null,
          };
        case "ContainerStatus":
          return {
            status: {
              id: id("d"),
              metadata: { name: "c", attempt: 0 },
              state,
              created_at: "99",
              log_path: `${logs}/c.log`,
              mounts: [{ host_path: "/present", container_path: "/p" }],
            },
          };
        case "StopContainer":
          return { error: { code: 5, message: `no ${id("c")}` } };
        default:
          return {};
      }
    },
  };
}

/** The same server with other answers to these RPCs. */
export function answering(endpoint: Server, answers: Readonly<Record<string, object>>): Server {
  return {
    ...endpoint,
    ask: (rpc, request, signal) =>
      answers[rpc] === undefined ? endpoint.ask(rpc, request, signal) : Promise.resolve(answers[rpc]),
  };
}

/** The RPC and the field of each difference. */
export function fieldsOf({ differences }: ShadowReport): readonly string[] {
  return differences.map(({ rpc, field }) => `${rpc} ${field}`);
}

export async function* stream(calls: readonly RecordedCall[]): AsyncGenerator<RecordedCall> {
  await Promise.resolve();
  yield* calls;
}

export async function play(
  t: TestContext,
  endpoint: Server,
  { calls = podCalls, signal = new AbortController().signal } = {},
): Promise<{ replayed: Replayed; report: ShadowReport }> {
  const report = newReport({ paths: { listen: "", relay: "", primary: "" }, endpoint: "", startedAt: "" });
  const replayed = await replay({
    calls: stream(calls),
    endpoint,
    fast: true,
    directory: temporaryDirectory(t),
    compare: compareAnswers,
    compareOptions: {},
    report: new ReportBuilder(report),
    signal,
    exists: (path) => path === "/present",
  });
  return { replayed, report };
}
