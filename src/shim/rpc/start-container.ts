import type { Call } from "../base/call.js";
import { messageOf, ShimError } from "../base/errors.js";
import { withDeadline } from "../base/abort.js";
import type { Container } from "../domain/container.js";
import type { Answer, StartContainerRequest, StartContainerResponse } from "../domain/cri.js";
import { ContainerState } from "../domain/cri.js";
import { applyCgroupLimits } from "./cgroup-limits.js";
import { requireReadContainer } from "./find-by-id.js";
import type { Services } from "./services.js";

type Deps = Pick<
  Services,
  | "engine"
  | "link"
  | "model"
  | "sync"
  | "host"
  | "oomScores"
  | "containerRecords"
  | "containerLanes"
  | "settings"
>;

/** What the OCI runtimes say when the command does not exist; the kubelet shows the short form to the user. */
const noExecutable = /executable file not found in \$PATH/;

/**
 * Starts a created container, gives it the limits that Docker cannot, and links its log. A second start of one that runs
 * succeeds.
 */
export async function startContainer(
  request: StartContainerRequest,
  deps: Deps,
  call: Call,
): Promise<Answer<StartContainerResponse>> {
  await deps.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, deps, call.signal);
  await deps.containerLanes.run(id, call.signal, () => {
    // The engine goes on with a start that its caller gave up, and the container would run without limits and log: so
    // from here on the caller is not asked. Every step has a limit of its own.
    const unhurried = new AbortController().signal;
    return start(id, deps, { ...call, signal: unhurried });
  });
  return {};
}

async function start(id: string, deps: Deps, call: Call): Promise<void> {
  const { model, sync } = deps;
  const container = model.requireContainer(id);
  requireStartable(container, deps);
  let failure: ShimError | undefined;
  try {
    await deps.engine.startContainer(id, call.signal);
    await settle(container, deps, call);
  } catch (error) {
    deps.oomScores.learnFromFailure(container.snapshot.resources.oomScoreAdj, error);
    failure = inKubeletWords(ShimError.from(error), id);
    // The first error is the one to report; events bring the state in any case.
    await sync.refresh(id).catch(() => undefined);
  }
  await link(container, failure, deps, call);
  if (failure !== undefined) throw failure;
}

/** What must be true of a container that has just been started, or it is stopped again. */
async function settle({ id, sandboxId }: Container, deps: Deps, call: Call): Promise<void> {
  const { engine, model, sync, containerRecords, settings } = deps;
  const record = containerRecords.get(id);
  try {
    const snapshot = await sync.refresh(id);
    if (model.sandbox(sandboxId)?.ready !== true) {
      throw new ShimError("precondition", `its sandbox "${sandboxId}" was stopped in the meantime`, {
        sandboxId,
      });
    }
    if (record === undefined || snapshot?.state.running !== true) return;
    await applyCgroupLimits(snapshot, record.cgroup, deps, call).catch((error: unknown) => {
      throw ShimError.from(error).within("apply its cgroup limits");
    });
  } catch (error) {
    await withDeadline(undefined, settings.cleanUpTimeoutMs, "stop container", (signal) =>
      engine.stopContainer(id, 0, signal),
    ).catch((stopError: unknown) => {
      call.log.error(
        { containerId: id, err: messageOf(stopError) },
        "cannot stop a container that must not run",
      );
    });
    throw error;
  }
}

/** Also after a failed start: Docker may have written why into the log. */
async function link(
  { id, logPath }: Container,
  failure: ShimError | undefined,
  { model, host }: Deps,
  call: Call,
): Promise<void> {
  const snapshot = model.snapshot(id);
  if (snapshot === undefined || logPath === "") return;
  try {
    await host().linkLog(logPath, snapshot, call.signal);
  } catch (error) {
    if (failure === undefined) throw ShimError.from(error).within(`link the log of container "${id}"`);
    call.log.warn({ containerId: id, err: messageOf(error) }, "cannot link the container's log");
  }
}

function inKubeletWords(error: ShimError, id: string): ShimError {
  const message = noExecutable.test(error.message) ? "executable not found in $PATH" : error.message;
  const fields = { ...error.fields, containerId: id };
  return new ShimError(error.kind, `failed to start container "${id}": ${message}`, fields, { cause: error });
}

function requireStartable(container: Container, { model }: Pick<Services, "model">): void {
  const { id, state, sandboxId } = container;
  if (state === ContainerState.CONTAINER_EXITED || state === ContainerState.CONTAINER_UNKNOWN) {
    const status = container.snapshot.state.status;
    throw new ShimError("precondition", `cannot start container "${id}": it is ${status}`, {
      containerId: id,
    });
  }
  if (model.sandbox(sandboxId)?.ready !== true) {
    throw new ShimError(
      "precondition",
      `cannot start container "${id}": its sandbox "${sandboxId}" is not ready`,
      {
        containerId: id,
        sandboxId,
      },
    );
  }
}
