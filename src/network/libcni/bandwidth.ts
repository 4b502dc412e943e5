/** The bandwidth annotations of a pod. */
import { ShimError } from "../../shim/lib/errors.js";
import { parseQuantity } from "../../shim/domain/quantity.js";
import type { JsonObject } from "../../shim/lib/json/exact-json.js";

const ingressKey = "kubernetes.io/ingress-bandwidth";
const egressKey = "kubernetes.io/egress-bandwidth";

/** Bounds of the kubelet in thousandths of a bit per second: 1k and 1P, both allowed. */
const leastMilli = 1000n * 1000n;
const mostMilli = 10n ** 15n * 1000n;

/** The plugin wants a burst with every rate. This is what dockershim sent: no limit worth the name. */
const burstBits = 2 ** 31 - 1;

/** The value of the capability `bandwidth`, rates in bit/s; undefined without annotations. Throws `invalid`. */
export function bandwidthOf(annotations: Readonly<Record<string, string>>): JsonObject | undefined {
  const ingress = rateOf(annotations, ingressKey);
  const egress = rateOf(annotations, egressKey);
  if (ingress === undefined && egress === undefined) return undefined;
  return {
    ...(ingress === undefined ? {} : { ingressRate: ingress, ingressBurst: burstBits }),
    ...(egress === undefined ? {} : { egressRate: egress, egressBurst: burstBits }),
  };
}

/** A quantity of bits per second, rounded up. */
function rateOf(annotations: Readonly<Record<string, string>>, key: string): number | undefined {
  const text = annotations[key];
  if (text === undefined) return undefined;
  const milli = parseQuantity(text, 1000);
  const rate = parseQuantity(text, 1);
  if (milli === undefined || rate === undefined) fail(key, text, "not a quantity, as 10M");
  if (milli < leastMilli) fail(key, text, "resource is unreasonably small (< 1kbit)");
  if (milli > mostMilli) fail(key, text, "resource is unreasonably large (> 1Pbit)");
  return Number(rate);
}

function fail(key: string, text: string, reason: string): never {
  const value = `${key}=${JSON.stringify(text)}`;
  throw new ShimError("invalid", `failed to get pod bandwidth from annotations: ${value}: ${reason}`);
}
