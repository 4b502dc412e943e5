import { sleep, withDeadline } from "../../lib/abort.js";
import { mayInheritPodType, typeLabel } from "../../domain/labels.js";
import { listedName } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { ReadModel } from "./read-model.js";

export interface FirstInspectDeps {
  readonly engine: Pick<Engine, "listContainers">;
  readonly model: ReadModel;
  /** Whether an inspect of the container is under way or queued. */
  readonly isInspecting: (id: string) => boolean;
  /** How long its first inspect may take before the container is listed. */
  readonly patienceMs: number;
  /** Limit of the list. */
  readonly timeoutMs: number;
}

/**
 * Shows a container whose first inspect takes long by what the engine's list says of it. The engine answers
 * no inspect while it starts the container, which takes seconds when many start at once; its list does not
 * wait. Without this, a container that another program has made is missing until its start has ended.
 *
 * Called when the first inspect of a container begins. Rejects with the error of the list or of `signal`.
 */
export async function expectUnlessInspected(
  id: string,
  { engine, model, isInspecting, patienceMs, timeoutMs }: FirstInspectDeps,
  signal: AbortSignal,
): Promise<void> {
  await sleep(patienceMs, signal);
  // The end of the inspect replaces or removes what is expected here. Nothing would after that end.
  const isDue = (): boolean => isInspecting(id) && !model.has(id);
  if (!isDue()) return;
  const [listed] = await withDeadline(signal, timeoutMs, `list container ${id}`, (limited) =>
    engine.listContainers({ labelKey: typeLabel, id }, limited),
  );
  if (listed === undefined || !isDue()) return;
  // What may be part of a pod by the labels of its image alone is known after its inspect.
  if (!mayInheritPodType({ name: listedName(listed), labels: listed.labels })) model.expect(listed);
}
