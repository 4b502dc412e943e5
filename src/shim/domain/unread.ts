/**
 * Sandboxes and containers that the engine has listed but not described yet, because their inspect hangs or fails: what
 * lists can say of them.
 */
import type { ContainerEntry } from "./container.js";
import { toContainerEntry } from "./container.js";
import type { PodIdentity } from "./names.js";
import type { SandboxEntry, SandboxRecord } from "./sandbox.js";
import { toSandboxEntry } from "./sandbox.js";
import type { ListedContainer } from "./snapshot.js";

/** Undefined when it is no sandbox, or its pod cannot be told from record, name or labels. */
export function unreadSandbox(
  listed: ListedContainer,
  record: SandboxRecord | undefined,
): SandboxEntry | undefined {
  const running = ["running", "paused", "restarting"].includes(listed.status);
  return toSandboxEntry({ ...listed, name: listedName(listed), state: { running } }, record);
}

/** Undefined when it is no container of a pod. Lists tell no exit codes: a failed start looks like none. */
export function unreadContainer(
  listed: ListedContainer,
  pod: PodIdentity | undefined,
): ContainerEntry | undefined {
  const state = { status: listed.status, exitCode: 0 };
  return toContainerEntry({ ...listed, name: listedName(listed), state }, pod);
}

/** Its own name, not one that a legacy link gave it (`other/alias`). */
export function listedName({ names }: ListedContainer): string {
  return names.find((name) => !name.includes("/")) ?? names[0] ?? "";
}
