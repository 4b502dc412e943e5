import { randomInt } from "node:crypto";
import type { Call } from "../base/call.js";
import { isKind } from "../base/errors.js";
import type { CreateBody } from "../domain/create-body.js";
import type { Services } from "./services.js";

/** What became of the container that has the wanted name. */
export type RivalOutcome =
  /** It is gone now: the name is free. */
  | "removed"
  /** It is nobody's that we may remove: take another name. */
  | "foreign";

/**
 * Creates a container under `name`. When the name is taken, `onRival` decides about the container that has it: remove
 * it (never one that runs), call it foreign, or throw. A foreign rival, or one that nobody can find, makes the name get
 * a random suffix, as dockershim did; both ancestors read such names.
 */
export async function createOrRecover(
  create: {
    readonly name: string;
    readonly alternativeName: (random: number) => string;
    readonly body: CreateBody;
  },
  { engine }: Pick<Services, "engine">,
  call: Call,
  onRival: (rivalId: string) => Promise<RivalOutcome>,
): Promise<string> {
  try {
    return await engine.createContainer(create.name, create.body, call.signal);
  } catch (error) {
    if (!isKind(error, "conflict")) throw error;
    const { rivalId } = error.fields;
    const outcome = typeof rivalId === "string" ? await onRival(rivalId) : "foreign";
    call.log.warn({ name: create.name, rivalId, outcome }, "container name was taken");
    if (outcome === "removed") {
      try {
        return await engine.createContainer(create.name, create.body, call.signal);
      } catch (again) {
        if (!isKind(again, "conflict")) throw again;
      }
    }
    const name = create.alternativeName(randomInt(2 ** 32));
    return engine.createContainer(name, create.body, call.signal);
  }
}
