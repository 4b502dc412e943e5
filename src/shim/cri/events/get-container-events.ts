import type { Call } from "../../lib/call.js";
import type { ContainerEventResponse } from "../../domain/cri.js";
import type { Send } from "../in-chunks.js";
import type { Services } from "../services.js";

/**
 * Everything that happens from now on, until the client leaves. What is there already has no events. `exhausted` when
 * the client does not keep up: it has missed events then, and lists anew.
 */
export async function getContainerEvents(
  _request: unknown,
  { link, events }: Pick<Services, "link" | "events">,
  call: Call,
  send: Send<ContainerEventResponse>,
): Promise<void> {
  // Until then the model is being filled, with what is there already.
  await link.live(call.signal);
  using subscription = events.subscribe();
  for (;;) await send(await subscription.next(call.signal));
}
