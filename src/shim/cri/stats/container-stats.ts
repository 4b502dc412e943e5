import type { Call } from "../../lib/call.js";
import { collect } from "../../lib/streams.js";
import type { Answer, ContainerStatsRequest, ContainerStatsResponse } from "../../domain/cri.js";
import { requireReadContainer } from "../find-by-id.js";
import { isRunning } from "./pod-parts.js";
import type { Services } from "../services.js";
import { containerStatsItem } from "./stats-items.js";

/** Of a container that does not run only what it has written is told. `notFound` for unknown ids. */
export async function containerStats(
  { container_id }: ContainerStatsRequest,
  services: Pick<Services, "link" | "model" | "sync" | "stats" | "layers" | "host">,
  call: Call,
): Promise<Answer<ContainerStatsResponse>> {
  const mountpoint = await services.host().imageDirectory(await services.link.live(call.signal));
  const container = await requireReadContainer(container_id, services, call.signal);
  const { id, snapshot } = container;
  const running = isRunning(container) ? [snapshot] : [];
  const [own] = await collect(services.stats().readContainers(running, { details: false }, call.signal));
  const layer = services.layers.usageOf(id);
  return { stats: containerStatsItem(container, own?.[1], layer, mountpoint) };
}
