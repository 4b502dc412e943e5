import { EngineLink } from "./engine-link.js";
import { ReadModel } from "./read-model.js";
import type { Records } from "./records.js";
import type { StateSync } from "./state-sync.js";

/** What this program knows of the engine and its containers. */
export interface EngineState {
  readonly link: EngineLink;
  readonly model: ReadModel;
  readonly sync: Pick<StateSync, "refresh" | "changing" | "remove" | "isInspecting">;
}

/** Without a connection to the engine, and empty. */
export function initialState({ pods }: Pick<Records, "pods">): Pick<EngineState, "link" | "model"> {
  const model = new ReadModel((id) => pods.get(id));
  pods.onChange((id) => model.recordChanged(id));
  return { link: new EngineLink(), model };
}
