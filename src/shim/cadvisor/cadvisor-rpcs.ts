/** What cAdvisor asks: from the read model alone, without an engine request. */
import type { ContainerEntry } from "../../domain/container.js";
import type { SandboxEntry } from "../../domain/sandbox.js";
import type { Rpc, Rpcs } from "../grpc/handlers.js";
import { ofContainer, ofNothing } from "../grpc/request-subject.js";
import type { ImageNames } from "../images/image-names.js";
import { withDeadline } from "../../lib/abort.js";
import type { Call } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import type { EngineState } from "../state/engine-state.js";
import { describeContainer, describeTask } from "./describe-container.js";
import type { ContainerRequest, ContainerResponse, TaskRequest, TaskResponse } from "./describe-container.js";

export interface CadvisorServices {
  readonly state: Pick<EngineState, "link" | "model" | "sync">;
  readonly images: { readonly names: Pick<ImageNames, "nameOf"> };
  /** Version of this program. */
  readonly version: string;
}

export function cadvisorRpcs(services: CadvisorServices): Rpcs {
  const row = <Request>(
    handle: (request: Request, call: Call, services: CadvisorServices) => Promise<object>,
    idOf?: (request: Request) => string,
  ): Rpc => ({
    handle: (request, call) => handle(request as Request, call, services),
    readOnly: true,
    subject:
      idOf === undefined ? ofNothing : (request) => ofContainer({ container_id: idOf(request as Request) }),
  });
  return new Map([
    ["GetVersion", row(() => Promise.resolve({ version: services.version, revision: "" }))],
    ["GetContainer", row<ContainerRequest>(getContainer, ({ id }) => id)],
    ["GetTask", row<TaskRequest>(getTask, (request) => request.container_id)],
  ]);
}

/**
 * cAdvisor leaves a cgroup without a name for good when this fails. The engine answers no inspect while it
 * starts a container, but what the create request or its list says of it is enough, and waited for.
 */
async function getContainer(
  { id }: ContainerRequest,
  { signal }: Call,
  { state, images }: CadvisorServices,
): Promise<ContainerResponse> {
  const found = state.model.entry(id) ?? (await arrival(id, state, signal));
  if (found === undefined) throw notFound(id);
  return describeContainer(found, images.names.nameOf(found.snapshot));
}

/** NOT_FOUND also for what has not been started: cAdvisor asks five times more then, for 6 s. */
function getTask(
  { container_id: id, exec_id }: TaskRequest,
  _call: Call,
  { state }: CadvisorServices,
): Promise<TaskResponse> {
  const found = exec_id === "" ? state.model.snapshot(id) : undefined;
  const task = found === undefined ? undefined : describeTask(found);
  return task === undefined ? Promise.reject(notFound(id)) : Promise.resolve(task);
}

/** cAdvisor waits for 2 s. */
const arrivalMs = 1_500;

/** Waits for the engine, and for a container that was told of; `unavailable` or `timeout`. */
async function arrival(
  id: string,
  state: CadvisorServices["state"],
  signal: AbortSignal,
): Promise<SandboxEntry | ContainerEntry | undefined> {
  const { link, model, sync } = state;
  const isComing = (): boolean => model.has(id) || sync.isInspecting(id);
  if (link.state.phase === "live" && !isComing()) return undefined;
  return withDeadline(signal, arrivalMs, "read the container", async (limited) => {
    await link.live(limited);
    for (;;) {
      const found = model.entry(id);
      if (found !== undefined || !isComing()) return found;
      await model.arrivals.next(id, limited);
    }
  });
}

function notFound(id: string): ShimError {
  return new ShimError("notFound", `no container of a pod: "${id}"`, { containerId: id });
}
