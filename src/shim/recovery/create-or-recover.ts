import { randomInt } from "node:crypto";
import type { Call } from "../../lib/call.js";
import { isKind, messageOf } from "../../lib/errors.js";
import type { CreateBody } from "../../domain/create-body.js";
import { type Labels, madeLabels } from "../../domain/labels.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { mayHaveHappened } from "./lost-answer.js";
import type { Engine } from "../ports/engine.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";
import type { AbandonedRequests } from "./abandoned-requests.js";

/** The decision about the container that has the name. */
export type ConflictOutcome =
  /** It was removed: the name is free. */
  | "removed"
  /** It must not be removed: the create takes another name. */
  | "foreign";

/** Creates under one name. */
const attempts = 3;

interface Deps {
  readonly engine: Engine;
  readonly state: Pick<EngineState, "sync">;
  readonly records: Pick<Records, "pods">;
  readonly abandonedRequests: AbandonedRequests;
}

interface Creation {
  readonly name: string;
  readonly alternativeName: (random: number) => string;
  readonly body: CreateBody;
}

/**
 * Creates a container under `name`. When the name is taken, `onConflict` decides about the conflicting
 * container: remove it (never a running one), treat it as foreign, or throw. With a foreign or unknown
 * conflicting container the name gets a random suffix, as in dockershim; cri-dockerd reads such names, too.
 *
 * A create whose answer is lost is sent again: the container of the first one is then the conflicting
 * container. When the caller has left, that container is looked for and removed.
 */
export async function createOrRecover(
  create: Creation,
  deps: Deps,
  call: Call,
  onConflict: (conflictingId: string) => Promise<ConflictOutcome>,
): Promise<string> {
  const { engine, abandonedRequests } = deps;
  const { name, body } = create;
  abandonedRequests.forget(name);
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    try {
      return await engine.createContainer(name, body, call.signal);
    } catch (error) {
      if (isKind(error, "conflict")) {
        const { conflictingId } = error.fields;
        const outcome = typeof conflictingId === "string" ? await onConflict(conflictingId) : "foreign";
        call.log.warn({ name, conflictingId, outcome }, "container name was taken");
        if (outcome === "foreign") break;
      } else {
        const isLast = attempt === attempts || call.signal.aborted || isKind(error, "timeout");
        if (isLast || !mayHaveHappened(error, call.signal))
          return await abandon({ name, body }, error, deps, call);
        call.log.warn({ name, err: messageOf(error) }, "answer to a create was lost, creating again");
      }
    }
  }
  const alternative = create.alternativeName(randomInt(2 ** 32));
  return engine
    .createContainer(alternative, body, call.signal)
    .catch((error: unknown) => abandon({ name: alternative, body }, error, deps, call));
}

type Sent = Pick<Creation, "name" | "body">;

async function abandon(sent: Sent, error: unknown, deps: Deps, { signal }: Call): Promise<never> {
  if (mayHaveHappened(error, signal)) {
    const looked = removeWhenSeen(sent, deps);
    if (!signal.aborted) await looked;
  }
  throw error;
}

/** Removes the container of an abandoned create, now or when it appears. Returns after the first look. */
function removeWhenSeen(
  { name, body }: Sent,
  { engine, state: { sync }, records, abandonedRequests }: Deps,
): Promise<void> {
  return abandonedRequests.expect(
    name,
    {
      // A container that has run or is on record is from an earlier call; without these labels it is from
      // another program.
      hasHappened: (found) =>
        found.state.status === "created" &&
        records.pods.get(found.id) === undefined &&
        hasLabels(found, body.Labels),
      respond: async ({ id }, signal) => {
        await sync.remove(id, { force: true }, signal);
      },
    },
    async (signal) => {
      const found = await engine.inspectContainer(name, signal);
      if (found !== undefined) await sync.refresh(found.id, signal);
    },
  );
}

function hasLabels({ labels }: Snapshot, sent: Labels): boolean {
  return Object.entries(madeLabels(sent)).every(([key, value]) => labels[key] === value);
}
