/** Hashes by which a change of a manifest is seen. Pure. */
import { createHash } from "node:crypto";
import type { Container, EphemeralContainer } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";

/** A container with another hash is killed and made again. 16 hexadecimal digits. */
export function containerHash(container: Container | EphemeralContainer): string {
  return digest(container).slice(0, 16);
}

/** A pod with another hash is made again. Without what a container alone is made from. */
export function podHash({ pod, key }: Pick<Manifest, "pod" | "key">): string {
  const { containers, initContainers = [], ephemeralContainers: _, ...rest } = pod.spec;
  const { activeDeadlineSeconds: __, terminationGracePeriodSeconds: ___, ...spec } = rest;
  const shell = ({ name, ports = [], securityContext, restartPolicy }: Container): unknown => ({
    name,
    restartPolicy,
    // Both are part of the sandbox's configuration.
    ports: ports.filter(({ hostPort }) => hostPort !== undefined),
    privileged: securityContext?.privileged === true,
  });
  const shells = { containers: containers.map(shell), initContainers: initContainers.map(shell) };
  return digest({ uid: key.uid, ...spec, ...shells });
}

/** With another one, a pod cannot go on as it is: it is made again, or containers of it are. */
export function podRevision(manifest: Pick<Manifest, "pod" | "key">): string {
  const { containers, initContainers = [] } = manifest.pod.spec;
  const sidecars = initContainers.filter(({ restartPolicy }) => restartPolicy === "Always");
  return [podHash(manifest), ...[...sidecars, ...containers].map(containerHash)].join(" ");
}

function digest(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value, withSortedKeys)).digest("hex");
}

function withSortedKeys(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)));
}
