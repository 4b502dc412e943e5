/** How long a container may take to end when the engine or the node stops. */
import { gracePeriodAnnotation, type Labels } from "../domain/labels.js";

/** The least that kubelets give, also to pods with a grace period of 0. */
const leastSeconds = 2;
/** After so long systemd forces a reboot that hangs: no pod can hold the node up for longer in any case. */
const mostSeconds = 30 * 60;

/**
 * The pod's terminationGracePeriodSeconds, within these bounds, as kubelets write it into annotations of
 * containers. Undefined for clients that do not: then the engine's own default counts, which is 10 s.
 */
export function gracePeriodSeconds(annotations: Labels): number | undefined {
  const text = annotations[gracePeriodAnnotation] ?? "";
  if (!/^-?\d{1,19}$/.test(text)) return undefined;
  return Math.min(Math.max(Number(text), leastSeconds), mostSeconds);
}
