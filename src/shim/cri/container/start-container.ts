import type { Call } from "../../../lib/call.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { withDeadline } from "../../../lib/abort.js";
import type { Container } from "../../../domain/container.js";
import type { Snapshot } from "../../../domain/snapshot.js";
import { ContainerState } from "../../../domain/cri.js";
import { longestProgramBytes, programTooLong } from "../../../domain/field-errors.js";
import { isBelow } from "../../plan/paths.js";
import { ulimitError } from "../../plan/ulimits.js";
import { requireReadContainer } from "../find-by-id.js";
import { mayHaveHappened, untilAppears } from "../../recovery/lost-answer.js";
import type { Handler, Services } from "../services.js";
import { checkTarget } from "./create-container.js";

/** Error of the OCI runtimes for a missing command. The kubelet shows the short form to the user. */
const noExecutable = /executable file not found in \$PATH/;

/** The steps are those of ARCHITECTURE.md, "The life of a pod". A container that runs already is a success. */
export const startContainer: Handler<"StartContainer"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const { id } = await requireReadContainer(request.container_id, services, call.signal);
  // Step 1: take the lock of the container.
  await services.locks.containers.run(id, call.signal, () => start(id, services, call));
  return {};
};

/**
 * The call's signal ends the start itself, but not the steps after it: the container would run without limits
 * and log. Each of those steps has a deadline of its own.
 */
async function start(id: string, services: Services, call: Call): Promise<void> {
  const { abandonedRequests } = services;
  const { model, sync } = services.state;
  const afterStart = { ...call, signal: new AbortController().signal };
  abandonedRequests.forget(id);
  const container = model.requireContainer(id);
  requireStartable(container, services);
  using _ = sync.changing(container.snapshot.name);
  let failure: ShimError | undefined;
  try {
    await requireOciRuntime(id, services, call.signal);
    // Step 2: make sure that the log has a record, and open the log.
    await restoreLogRecord(container, services);
    await withDeadline(call.signal, services.settings.cleanUpTimeoutMs, "make its log", (signal) =>
      services.logs.beforeStart(container.snapshot, signal),
    );
    // Step 3: start.
    await startOrFind(container, services, call);
    await refreshAndLimit(container, services, afterStart);
  } catch (error) {
    // A sandbox with a negative score proves that the host can lower OOM scores.
    const { oomScoreAdj = 0 } = model.sandbox(container.sandboxId)?.snapshot.resources ?? {};
    if (oomScoreAdj >= 0)
      services.node.oomScores.learnFromFailure(container.snapshot.resources.oomScoreAdj, error);
    const refused = ulimitError(error, services.settings.defaultUlimits);
    failure = inKubeletWords(refused ?? ShimError.from(error), id);
    if (!call.signal.aborted) {
      // The first error is the one to report; the next event refreshes the state.
      await sync.refresh(id, call.signal).catch(() => undefined);
    }
  }
  // Step 6: link the log, where it is Docker's.
  await linkLog(container, failure, services, afterStart);
  if (failure !== undefined) throw failure;
}

/** After a start of this program the OCI runtime may ask before questions are answered. */
async function requireOciRuntime(
  id: string,
  { records: { containers }, node: { ociRuntime }, state: { link } }: Services,
  signal: AbortSignal,
): Promise<void> {
  if (containers.get(id)?.oci === undefined) return;
  const found = await ociRuntime.find(await link.live(signal), signal);
  if (found !== "works") throw new ShimError("precondition", found.problem);
}

/**
 * Writes the record of the log again when it is missing: the program was killed between the creation of the
 * container and the write of the record, or the file was lost.
 */
async function restoreLogRecord(
  { id, sandboxId, logPath, snapshot }: Container,
  { logs, records: { pods: podRecords } }: Services,
): Promise<void> {
  const directory = podRecords.get(sandboxId)?.logDirectory ?? "";
  if (snapshot.state.status !== "created" || logs.ownerOf(id) !== undefined) return;
  if (directory === "" || !isBelow(logPath, directory)) return;
  await logs.created(id, { directory, path: logPath });
}

/** The engine completes a start whose caller has left or whose answer is lost: what runs afterwards is started. */
async function startOrFind(container: Container, services: Services, call: Call): Promise<void> {
  const { engine, abandonedRequests } = services;
  const { sync } = services.state;
  const { id } = container;
  try {
    await engine.startContainer(id, call.signal);
  } catch (error) {
    if (!mayHaveHappened(error, call.signal)) throw error;
    if (await appearsRunning(id, services, call.signal)) {
      call.log.warn(
        { containerId: id, err: messageOf(error) },
        "the engine's answer to a start was lost, the container runs",
      );
      return;
    }
    const complete = async (_: unknown, signal: AbortSignal): Promise<void> => {
      const context = { ...call, signal };
      await services.locks.containers.run(id, signal, async () => {
        await refreshAndLimit(container, services, context);
        await linkLog(container, undefined, services, context);
      });
    };
    const isRunning = ({ state }: Snapshot): boolean => state.running;
    void abandonedRequests.expect(id, { hasHappened: isRunning, respond: complete }, (signal) =>
      sync.refresh(id, signal),
    );
    throw error;
  }
}

/** Only looks: a second start would run a container twice that has ended in between. */
async function appearsRunning(
  id: string,
  { state: { sync } }: Services,
  signal: AbortSignal,
): Promise<boolean> {
  if (signal.aborted) return false;
  const seen = await untilAppears(async (limited) => {
    const state = (await sync.refresh(id, limited))?.state;
    if (state?.status === "running") return true;
    // After a failed start Docker shows the container as created, with an exit code.
    return state?.status === "created" && state.exitCode === 0 ? undefined : false;
  }, signal).catch(() => false);
  return seen === true;
}

/** Stops the container again when its sandbox was stopped, or a limit cannot be applied. */
async function refreshAndLimit({ id, sandboxId }: Container, services: Services, call: Call): Promise<void> {
  const { engine, settings } = services;
  const { model, sync } = services.state;
  const { limits } = services.node;
  try {
    // Step 4: refresh.
    const snapshot = await sync.refresh(id);
    if (model.sandbox(sandboxId)?.ready !== true) {
      throw new ShimError("precondition", `its sandbox "${sandboxId}" was stopped in the meantime`, {
        sandboxId,
      });
    }
    if (snapshot === undefined) return;
    // Step 5: apply cgroup limits from the record.
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

/** Also after a failed start: Docker may have written the reason into the log. */
async function linkLog(
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
  // Created by another program, or an earlier version.
  if (container.snapshot.programBytes > longestProgramBytes)
    throw programTooLong(`cannot start container "${id}": its command`);
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
  requireTarget(container, model);
}

/** The target may have ended, or have been removed, since the create. */
function requireTarget(
  { id, sandboxId, snapshot }: Container,
  model: Pick<Services["state"]["model"], "container">,
): void {
  const targetId = snapshot.pidMode.replace(/^container:/, "");
  if (targetId === snapshot.pidMode || targetId === sandboxId) return;
  const target = model.container(targetId);
  try {
    // "Not found" would tell a kubelet that the container itself is gone.
    if (target === undefined) throw new ShimError("precondition", `container "${targetId}" does not exist`);
    checkTarget(target, sandboxId);
  } catch (error) {
    throw ShimError.from(error).within(`cannot start container "${id}": join the PID namespace`, {
      containerId: id,
    });
  }
}
