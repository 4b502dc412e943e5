/** What the pages for people read, from the parts of the program. */
import type { CallUnderWay } from "../../lib/call.js";
import { explain, type Explanation } from "../../history/explain.js";
import { findSubjects } from "../../history/find-subjects.js";
import { historyDirectory } from "../../history/history-files.js";
import { readHistory } from "../../history/read-history.js";
import type { Config } from "../config/resolve.js";
import { presentConditions } from "../cri/runtime/status.js";
import type { Services } from "../cri/services.js";
import type { PageSources } from "../page/page-sources.js";
import type { StateSync } from "../state/state-sync.js";

/** Of the history, so that one that may be very large costs a page no more. */
const latestBytes = 16 * 1024 * 1024;

export function pageSources(
  { historyMaxBytes, readOnly, stateDir }: Pick<Config, "historyMaxBytes" | "readOnly" | "stateDir">,
  services: Services,
  {
    version,
    sync,
    underWay,
  }: {
    readonly version: string;
    readonly sync: Pick<StateSync, "comparedAtMs">;
    readonly underWay: () => readonly CallUnderWay[];
  },
): Omit<PageSources, "recent"> {
  const { state, network } = services;
  return {
    version,
    nodeVersion: process.version,
    startedAtMs: performance.timeOrigin,
    now: () => Date.now(),
    conditions: () => presentConditions(services),
    link: state.link,
    model: state.model,
    comparedMsAgo: () =>
      sync.comparedAtMs === undefined ? undefined : performance.now() - sync.comparedAtMs,
    network,
    underWay,
    why: historyMaxBytes === 0 || readOnly ? undefined : (podUid) => why(historyDirectory(stateDir), podUid),
  };
}

async function why(directory: string, podUid: string): Promise<Explanation | undefined> {
  const { records } = await readHistory(directory, { mentions: JSON.stringify(podUid), latestBytes });
  const pod = findSubjects(records, podUid).find((found) => found.podUid === podUid);
  return pod === undefined ? undefined : explain(pod, Date.now());
}
