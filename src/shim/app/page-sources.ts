/** What the pages for people read, from the parts of the program. */
import type { CallUnderWay } from "../../lib/call.js";
import { presentConditions } from "../cri/runtime/status.js";
import type { Services } from "../cri/services.js";
import type { PageSources } from "../page/page-sources.js";
import type { StateSync } from "../state/state-sync.js";

export function pageSources(
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
  };
}
