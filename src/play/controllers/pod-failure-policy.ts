/** What the podFailurePolicy of a Job makes of a failed pod: the rules of Kubernetes' job controller (1.36). Pure. */
import type { FailureAction, FailureRule } from "../manifests/workload-schema.js";
import type { PodStatus } from "../pod-rules/status-types.js";

/** The action of the first rule that the pod matches; undefined: it counts as ever. */
export function failureAction(rules: readonly FailureRule[], status: PodStatus): FailureAction | undefined {
  return rules.find((rule) => matches(rule, status))?.action;
}

function matches({ onExitCodes, onPodConditions = [] }: FailureRule, status: PodStatus): boolean {
  if (onExitCodes === undefined)
    return onPodConditions.some((wanted) =>
      status.conditions.some(
        (condition) => condition.type === wanted.type && condition.status === (wanted.status ?? "True"),
      ),
    );
  const { containerName, operator, values } = onExitCodes;
  return [...status.containerStatuses, ...status.initContainerStatuses].some(({ name, state }) => {
    const exitCode = state.terminated?.exitCode ?? 0;
    if (exitCode === 0 || (containerName !== undefined && containerName !== name)) return false;
    return values.includes(exitCode) === (operator === "In");
  });
}
