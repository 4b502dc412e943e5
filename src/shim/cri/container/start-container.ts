import type { Call } from "../../lib/call.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { withDeadline } from "../../lib/abort.js";
import type { Container } from "../../domain/container.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Answer, StartContainerRequest, StartContainerResponse } from "../../domain/cri.js";
import { ContainerState } from "../../domain/cri.js";
import { isBelow } from "../../plan/paths.js";
import { ulimitError } from "../../plan/ulimits.js";
import { requireReadContainer } from "../find-by-id.js";
import { mayHaveHappened, untilAppears } from "../../recovery/lost-answer.js";
import type { Services } from "../services.js";

/** What the OCI runtimes say when the command does not exist; the kubelet shows the short form to the user. */
const noExecutable = /executable file not found in \$PATH/;

/**
 * Starts a created container, gives it the limits that Docker cannot, and makes its log. A second start of one that runs
 * succeeds.
 */
export async function startContainer(
  request: StartContainerRequest,
  services: Services,
  call: Call,
): Promise<Answer<StartContainerResponse>> {
  await services.state.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  await services.locks.containers.run(id, call.signal, () => start(id, services, call));
  return {};
}

/**
 * The start itself ends with its caller. What must follow it does not, or the container would run without limits and
 * log: every step of that has a limit of its own.
 */
async function start(id: string, services: Services, call: Call): Promise<void> {
  const { abandonedRequests } = services;
  const { model, sync } = services.state;
  const unhurried = { ...call, signal: new AbortController().signal };
  abandonedRequests.forget(id);
  const container = model.requireContainer(id);
  requireStartable(container, services);
  let failure: ShimError | undefined;
  try {
    await decideLostLog(container, services);
    await withDeadline(call.signal, services.settings.cleanUpTimeoutMs, "make its log", (signal) =>
      services.logs.beforeStart(container.snapshot, signal),
    );
    await startOrFind(container, services, call);
    await settle(container, services, unhurried);
  } catch (error) {
    // A sandbox that runs with a negative score proves that the reason is another one.
    const { oomScoreAdj = 0 } = model.sandbox(container.sandboxId)?.snapshot.resources ?? {};
    if (oomScoreAdj >= 0) {
      services.node.oomScores.learnFromFailure(container.snapshot.resources.oomScoreAdj, error);
    }
    const refused = ulimitError(error, services.settings.defaultUlimits);
    failure = inKubeletWords(refused ?? ShimError.from(error), id);
    if (!call.signal.aborted) {
      // The first error is the one to report; events bring the state in any case.
      await sync.refresh(id, call.signal).catch(() => undefined);
    }
  }
  await link(container, failure, services, unhurried);
  if (failure !== undefined) throw failure;
}

/**
 * A kill between the creation of a container and the record of its log, or a record that was lost since then, must not
 * cost it the log. What was decided then is not known any more, and decided again.
 */
async function decideLostLog(
  { id, sandboxId, logPath, snapshot }: Container,
  { logs, records: { pods: podRecords } }: Services,
): Promise<void> {
  const directory = podRecords.get(sandboxId)?.logDirectory ?? "";
  if (snapshot.state.status !== "created" || logs.ownerOf(id) !== undefined) return;
  if (directory === "" || !isBelow(logPath, directory)) return;
  await logs.created(snapshot, { directory, path: logPath });
}

/** The engine goes on with a start that its caller gave up, or whose answer is lost: one that runs then has started. */
async function startOrFind(container: Container, services: Services, call: Call): Promise<void> {
  const { engine, abandonedRequests } = services;
  const { sync } = services.state;
  const { id } = container;
  try {
    await engine.startContainer(id, call.signal);
  } catch (error) {
    if (!mayHaveHappened(error, call.signal)) throw error;
    if (await isSeenRunning(id, services, call.signal)) {
      call.log.warn(
        { containerId: id, err: messageOf(error) },
        "the answer to a start was lost, but it runs",
      );
      return;
    }
    const complete = async (_: unknown, signal: AbortSignal): Promise<void> => {
      const context = { ...call, signal };
      await services.locks.containers.run(id, signal, async () => {
        await settle(container, services, context);
        await link(container, undefined, services, context);
      });
    };
    const isRunning = ({ state }: Snapshot): boolean => state.running;
    void abandonedRequests.expect(id, { hasHappened: isRunning, respond: complete }, (signal) =>
      sync.refresh(id, signal),
    );
    throw error;
  }
}

/** Not a second start: a container that has ended in between would run twice. */
async function isSeenRunning(
  id: string,
  { state: { sync } }: Services,
  signal: AbortSignal,
): Promise<boolean> {
  if (signal.aborted) return false;
  const seen = await untilAppears(async (limited) => {
    const state = (await sync.refresh(id, limited))?.state;
    if (state?.status === "running") return true;
    // Docker leaves one that could not be started as created, with an exit code.
    return state?.status === "created" && state.exitCode === 0 ? undefined : false;
  }, signal).catch(() => false);
  return seen === true;
}

/** What must be true of a container that has just been started, or it is stopped again. */
async function settle({ id, sandboxId }: Container, services: Services, call: Call): Promise<void> {
  const { engine, settings } = services;
  const { model, sync } = services.state;
  const { limits } = services.node;
  try {
    const snapshot = await sync.refresh(id);
    if (model.sandbox(sandboxId)?.ready !== true) {
      throw new ShimError("precondition", `its sandbox "${sandboxId}" was stopped in the meantime`, {
        sandboxId,
      });
    }
    if (snapshot === undefined) return;
    await limits.apply(snapshot, call.signal).catch((error: unknown) => {
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

/** Where the log is Docker's. Also after a failed start: Docker may have written why into it. */
async function link(
  { id, logPath }: Container,
  failure: ShimError | undefined,
  { state: { model }, node: { host }, logs }: Services,
  call: Call,
): Promise<void> {
  const snapshot = model.snapshot(id);
  if (snapshot === undefined || logPath === "" || logs.owns(id)) return;
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

function requireStartable(container: Container, { state: { model } }: Services): void {
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
