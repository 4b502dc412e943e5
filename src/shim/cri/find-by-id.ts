/**
 * Finds sandboxes and containers by id. An id without an entity in the read model is inspected first, so that
 * no call takes a pending container for removed. An error of the inspect is the error of the call.
 */
import { withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Container } from "../../domain/container.js";
import { isContainerId } from "../../domain/id-and-label-filters.js";
import type { Sandbox } from "../../domain/sandbox.js";
import type { Services } from "./services.js";

type Find<Found> = (idOrPrefix: string, services: Services, signal: AbortSignal) => Promise<Found>;

/** As long as a call waits for an engine link that is recovering. */
const readTimeoutMs = 5_000;

/**
 * The full id of a known sandbox, by id or prefix. Else the text itself, when it has the form of a full id:
 * records and checkpoints may know it. Undefined for all other texts, which must not reach a path.
 */
export function sandboxIdOf(idOrPrefix: string, { state: { model } }: Services): string | undefined {
  return model.sandboxId(idOrPrefix) ?? (isContainerId(idOrPrefix) ? idOrPrefix : undefined);
}

/**
 * Refreshes a stale sandbox: a tear-down with an outdated process id would hit the network of another pod.
 * Undefined when the engine has no sandbox of this full id.
 */
export const findSandbox: Find<Sandbox | undefined> = async (id, { state: { model, sync } }, signal) => {
  const known = model.sandbox(id);
  if (known !== undefined && !model.isStale(id)) return known;
  if (model.containerId(id) === undefined) await sync.refresh(id, signal);
  return model.sandbox(id);
};

/** By full id or unambiguous prefix; undefined when the engine has no such container. */
export const findContainer: Find<Container | undefined> = async (idOrPrefix, { state }, signal) => {
  const { model, sync } = state;
  const known = model.container(idOrPrefix);
  if (known !== undefined) return known;
  const id = model.containerId(idOrPrefix) ?? (isContainerId(idOrPrefix) ? idOrPrefix : undefined);
  if (id === undefined || model.sandboxId(id) !== undefined) return undefined;
  await sync.refresh(id, signal);
  return model.container(id);
};

/** For statuses. Inspects a pending sandbox; throws `unavailable` or `timeout` when that fails. */
export const requireReadSandbox: Find<Sandbox> = async (idOrPrefix, services, signal) => {
  const { model } = services.state;
  const known = model.sandbox(idOrPrefix);
  if (known !== undefined) return known;
  const id = model.sandboxId(idOrPrefix);
  if (id !== undefined) await read(id, `read pod sandbox "${id}"`, services, signal);
  return model.requireSandbox(id ?? idOrPrefix);
};

/** Like `requireReadSandbox`. */
export const requireReadContainer: Find<Container> = async (idOrPrefix, services, signal) => {
  const { model } = services.state;
  const known = model.container(idOrPrefix);
  if (known !== undefined) return known;
  const id = model.containerId(idOrPrefix);
  if (id !== undefined) await read(id, `read container "${id}"`, services, signal);
  return model.requireContainer(id ?? idOrPrefix);
};

/** Like `requireReadContainer`; `precondition` when it does not run. */
export const requireRunningContainer: Find<Container> = async (idOrPrefix, services, signal) => {
  const container = await requireReadContainer(idOrPrefix, services, signal);
  const { id, snapshot } = container;
  if (snapshot.state.running) return container;
  throw new ShimError("precondition", `container not running (${id})`, { containerId: id });
};

/** Like `requireReadSandbox`; `precondition` when its container does not run. */
export const requireRunningSandbox: Find<Sandbox> = async (idOrPrefix, services, signal) => {
  const sandbox = await requireReadSandbox(idOrPrefix, services, signal);
  const { id, snapshot } = sandbox;
  if (snapshot.state.running) return sandbox;
  throw new ShimError("precondition", `pod sandbox not running (${id})`, { sandboxId: id });
};

async function read(
  id: string,
  action: string,
  { state: { sync } }: Services,
  signal: AbortSignal,
): Promise<void> {
  try {
    await withDeadline(signal, readTimeoutMs, action, (limited) => sync.refresh(id, limited));
  } catch (error) {
    if (isKind(error, "unavailable", "timeout", "cancelled")) throw error;
    // No error of an inspect means that the container is gone.
    throw new ShimError("unavailable", `${action}: ${messageOf(error)}`, {}, { cause: error });
  }
}
