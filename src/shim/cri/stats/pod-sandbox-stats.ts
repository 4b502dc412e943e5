import type { Call } from "../../lib/call.js";
import { collect } from "../../lib/streams.js";
import { ShimError } from "../../lib/errors.js";
import type { Answer, PodSandboxStatsRequest, PodSandboxStatsResponse } from "../../domain/cri.js";
import { requireReadSandbox } from "../find-by-id.js";
import { statsOfPods } from "./list-pod-sandbox-stats.js";
import type { Services } from "../services.js";

/** `notFound` for unknown ids, `precondition` for a sandbox that is not ready, `unavailable` when nothing can be read. */
export async function podSandboxStats(
  { pod_sandbox_id }: PodSandboxStatsRequest,
  services: Pick<Services, "link" | "model" | "sync" | "stats" | "layers" | "host">,
  call: Call,
): Promise<Answer<PodSandboxStatsResponse>> {
  await services.link.live(call.signal);
  const sandbox = await requireReadSandbox(pod_sandbox_id, services, call.signal);
  const { id } = sandbox;
  const [stats] = await collect(statsOfPods([sandbox], services, call.signal));
  if (stats !== undefined) return { stats };
  const action = `read the statistics of pod sandbox "${id}"`;
  // It may have stopped meanwhile.
  if (!sandbox.ready || services.model.sandbox(id)?.ready !== true) {
    throw new ShimError("precondition", `${action}: it is not ready`, { sandboxId: id });
  }
  const reason = services.stats().failureOf(id) ?? "its pause process has just ended or is being started";
  throw new ShimError("unavailable", `${action}: ${reason}`, { sandboxId: id });
}
