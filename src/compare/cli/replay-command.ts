/** `dockershim replay FILE`: repeats the calls of a recording at a CRI server. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AskedServer, connectAsked, serverName } from "../answers/asked-server.js";
import { compareAnswers } from "../answers/compare-answers.js";
import { newReport } from "../observe-calls.js";
import { openRecording, type Recording } from "../record/recording.js";
import { replay, type Replayed } from "../replay/replay.js";
import { serverKind } from "../answers/server-kind.js";
import { ReportBuilder, type ShadowReport } from "../shadow/shadow-report.js";
import { ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import type { ProcessIo } from "../../cli/process-io.js";
import { renderReport } from "./show-report.js";

export interface ReplayOptions {
  readonly recording: string;
  readonly endpoint: string;
  /** As soon as the calls on which a call depends are answered. */
  readonly fast: boolean;
  /** Also at an endpoint that has pods. */
  readonly anyway: boolean;
  readonly format: "page" | "json";
}

type ReplayIo = Pick<ProcessIo, "writeOut" | "signal">;

/** As long as a kubelet waits for a pod with its images. */
const callMs = 240_000;

/** The exit code: 2 when answers differ in a way that is not intended, or pods are left. */
export async function runReplay(options: ReplayOptions, io: ReplayIo): Promise<number> {
  const recording = await openRecording(options.recording);
  try {
    return await replayRecording(recording, options, io);
  } finally {
    recording.close();
  }
}

async function replayRecording(
  recording: Recording,
  { recording: file, endpoint: socket, fast, anyway, format }: ReplayOptions,
  { writeOut, signal }: ReplayIo,
): Promise<number> {
  const endpoint = await connectAsked(socket, signal, { callMs });
  const directory = await mkdtemp(join(tmpdir(), "dockershim-replay-"));
  try {
    if (!anyway) await requireNoPods(endpoint, socket, signal);
    const { server } = recording.header;
    const startedAt = new Date().toISOString();
    const paths = { listen: "", relay: "", primary: file };
    const report = newReport({ paths, endpoint: socket, startedAt });
    const recorded = `${server.runtime_name ?? ""} ${server.runtime_version ?? ""}`;
    report.primary = { socket: file, server: recorded };
    report.shadow = { socket, server: serverName(endpoint) };
    const replayed = await replay({
      calls: recording.calls,
      endpoint,
      fast,
      directory,
      compare: compareAnswers,
      compareOptions: { servers: { left: serverKind(server, {}), right: endpoint.kind } },
      report: new ReportBuilder(report),
      signal,
    });
    report.updatedAt = new Date().toISOString();
    report.complete = true;
    const isWhole = recording.end() !== undefined;
    writeOut(
      format === "json"
        ? `${JSON.stringify({ ...replayed, isWhole, rpcs: report.rpcs, differences: report.differences }, null, 2)}\n`
        : page(report, replayed, isWhole),
    );
    const differs = report.differences.some(({ intended }) => intended === undefined);
    return differs || replayed.left.length > 0 ? 2 : 0;
  } finally {
    endpoint.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** Throws `conflict` when the server has pods, `unavailable` when it does not list them. */
export async function requireNoPods(
  endpoint: Pick<AskedServer, "ask">,
  socket: string,
  signal: AbortSignal,
): Promise<void> {
  const { items } = (await endpoint.ask("ListPodSandbox", {}, signal)) as { items?: readonly unknown[] };
  const action = `replay at ${JSON.stringify(socket)}`;
  if (items === undefined)
    throw new ShimError("unavailable", `${action}: it does not list its pods; see crictl -r ${socket} pods`);
  if (items.length === 0) return;
  throw new ShimError(
    "conflict",
    `${action}: it has ${String(items.length)} pods; use a server without pods, or --anyway`,
  );
}

export function page(report: ShadowReport, replayed: Replayed, isWhole: boolean): string {
  const { played, notPlayed, missingImages, missingPaths, imageLabels, left } = replayed;
  const lines = [
    `${String(played)} calls played${isWhole ? "" : "; the recording is cut off, all before the cut was played"}`,
    ...Object.entries(notPlayed).map(([reason, count]) => `${String(count)} not played: ${reason}`),
    ...missingImages.map((image) => `image missing at the endpoint, pull it first: ${image}`),
    ...missingPaths.slice(0, 20).map((path) => `mount left out, the path is not on this node: ${path}`),
    ...(missingPaths.length > 20 ? [`and ${String(missingPaths.length - 20)} more mounts`] : []),
    ...(imageLabels.length === 0
      ? []
      : [`labels not compared, no request had them: ${imageLabels.slice(0, 20).join(", ")}`]),
    ...left.map((id) => `pod could not be removed: ${id}`),
  ];
  return `${lines.map(shownText).join("\n")}\n\n${renderReport(report, { left: "recorded", right: "replayed" })}`;
}
