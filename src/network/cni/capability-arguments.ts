/** `CNI_ARGS` and capability arguments (`runtimeConfig`) of a pod. */
import { ShimError } from "../../lib/errors.js";
import type { PortMapping } from "../../domain/sandbox.js";
import type { PodNetworkReference, PodNetworkRequest } from "../../shim/ports/network-plugin.js";
import type { CniArgument } from "../libcni/invoke-plugin.js";
import type { Json, JsonObject } from "../../lib/json/exact-json.js";
import { parseQuantity } from "../../domain/quantity.js";

/** Plugins that declare this need a pod CIDR. */
export const ipRangesCapability = "ipRanges";

/** `CNI_ARGS` of a pod. `IgnoreUnknown` is for plugins that refuse keys they do not know. */
export function podArguments(pod: PodNetworkReference & { readonly uid?: string }): readonly CniArgument[] {
  return [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", pod.namespace],
    ["K8S_POD_NAME", pod.name],
    ["K8S_POD_INFRA_CONTAINER_ID", pod.sandboxId],
    ...(pod.uid === undefined || pod.uid === "" ? [] : [["K8S_POD_UID", pod.uid] as const]),
  ];
}

/** Whether `CNI_ARGS` can hold the pair: ";" separates pairs and cannot be escaped. */
export function isSayable([, value]: CniArgument): boolean {
  return !value.includes(";") && !value.includes("\0");
}

/** `pairs`. Throws `invalid` when `CNI_ARGS` cannot hold one of them. */
export function requireSayable(pairs: readonly CniArgument[]): readonly CniArgument[] {
  const bad = pairs.find((pair) => !isSayable(pair));
  if (bad === undefined) return pairs;
  throw new ShimError("invalid", `CNI argument ${bad[0]}=${JSON.stringify(bad[1])}: contains ";"`);
}

/**
 * Values for a pod's ADD, only those in `declared`. Bad bandwidth annotations are `invalid`, also when no plugin uses
 * them, as in dockershim.
 */
export function podCapabilities(
  pod: PodNetworkRequest,
  podCidrs: readonly string[],
  declared: ReadonlySet<string>,
): JsonObject {
  const offered: Readonly<Record<string, Json | undefined>> = {
    ...portMappingsCapability(pod.portMappings),
    bandwidth: bandwidthOf(pod.annotations),
    [ipRangesCapability]: ipRanges(podCidrs),
    dns: dnsOf(pod.dns),
    cgroupPath: pod.cgroupParent === "" ? undefined : pod.cgroupParent,
    aliases: [pod.name],
    "io.kubernetes.cri.pod-annotations":
      Object.keys(pod.annotations).length === 0 ? undefined : { ...pod.annotations },
  };
  return Object.fromEntries(
    Object.entries(offered).filter(
      (pair): pair is [string, Json] => pair[1] !== undefined && declared.has(pair[0]),
    ),
  );
}

/** `portMappings` without the entries that map nothing; no key at all when none is left. */
export function portMappingsCapability(mappings: readonly PortMapping[]): JsonObject {
  const entries = mappings
    .filter(({ hostPort }) => hostPort > 0)
    .map(({ hostPort, containerPort, protocol, hostIp }) => ({
      hostPort,
      containerPort,
      protocol,
      hostIP: hostIp,
    }));
  return entries.length === 0 ? {} : { portMappings: entries };
}

/** One range set per CIDR, so that a pod gets an address of each. Dual-stack CIDRs may be joined by a comma. */
function ipRanges(podCidrs: readonly string[]): Json | undefined {
  const cidrs = splitCidrs(podCidrs);
  return cidrs.length === 0 ? undefined : cidrs.map((subnet) => [{ subnet }]);
}

export function splitCidrs(podCidrs: readonly string[]): readonly string[] {
  return podCidrs
    .flatMap((text) => text.split(","))
    .flatMap((text) => (text.trim() === "" ? [] : [text.trim()]));
}

function dnsOf(dns: PodNetworkRequest["dns"]): Json | undefined {
  if (dns === undefined) return undefined;
  const { servers, searches, options } = dns;
  if (servers.length + searches.length + options.length === 0) return undefined;
  return { servers: [...servers], searches: [...searches], options: [...options] };
}

const ingressKey = "kubernetes.io/ingress-bandwidth";
const egressKey = "kubernetes.io/egress-bandwidth";

/** Bounds of the kubelet in thousandths of a bit per second: 1k and 1P, both allowed. */
const leastMilli = 1000n * 1000n;
const mostMilli = 10n ** 15n * 1000n;

/** The plugin wants a burst with every rate. This is what dockershim sent: no limit worth the name. */
const burstBits = 2 ** 31 - 1;

/** The capability `bandwidth` in bit/s; undefined without annotations. Throws `invalid`. */
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
