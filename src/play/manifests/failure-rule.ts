/** The rules of a podFailurePolicy. */
import { qualifiedKey } from "./names.js";
import { exitCode } from "./readers.js";
import { type TypeOf, list, mandatory, object, oneOf, string } from "./schema.js";

export const failureRule = object({
  action: mandatory(oneOf(["FailJob", "FailIndex", "Ignore", "Count"])),
  onExitCodes: object({
    containerName: string(),
    operator: mandatory(oneOf(["In", "NotIn"])),
    values: mandatory(list(exitCode)),
  }),
  onPodConditions: list(
    object({ type: mandatory(string(qualifiedKey)), status: oneOf(["True", "False", "Unknown"]) }),
  ),
});

export type FailureRule = TypeOf<typeof failureRule>;

export type FailureAction = FailureRule["action"];
