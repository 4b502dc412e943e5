/** Services, checked by the rules of Kubernetes' own validation. */
import { type Item, originOf } from "./collect.js";
import type { service } from "./object-schema.js";
import { type Problem, type TypeOf, malformed } from "./schema.js";
import type { Service } from "./workloads.js";

export function makeService(item: Item<TypeOf<typeof service>>, problems: Problem[]): Service {
  const { spec } = item.value;
  const { type = "ClusterIP", clusterIP, publishNotReadyAddresses = false, externalName } = spec;
  // As in Kubernetes, an empty one is none; it would have all labels.
  const selector = Object.keys(spec.selector ?? {}).length > 0 ? spec.selector : undefined;
  const { sessionAffinity = "None" } = spec;
  const report = (path: string, reason: string): void => {
    problems.push(malformed(`spec.${path}`, reason));
  };
  const ports = (spec.ports ?? []).map((one) => ({
    name: one.name,
    protocol: one.protocol ?? "TCP",
    port: one.port,
    targetPort: one.targetPort ?? one.port,
    nodePort: one.nodePort,
  }));
  const isHeadless = clusterIP === "None";
  if (ports.length === 0 && !isHeadless && type !== "ExternalName") report("ports", "must name a port");
  if (type === "ExternalName" && externalName === undefined) report("externalName", "is missing");
  if (type !== "ExternalName" && externalName !== undefined)
    report("externalName", "is only for the type ExternalName");
  if (isHeadless && (type === "NodePort" || type === "LoadBalancer"))
    report("clusterIP", `cannot be None for the type ${type}`);
  const names = new Set<string>();
  const numbers = new Set<string>();
  ports.forEach((one, index) => {
    const number = `${one.port}/${one.protocol}`;
    if (ports.length > 1 && one.name === undefined)
      report(`ports[${index}].name`, "is missing: several ports need names");
    if (one.name !== undefined && names.has(one.name))
      report(`ports[${index}].name`, `${JSON.stringify(one.name)} is used twice`);
    if (numbers.has(number)) report(`ports[${index}].port`, `${number} is used twice`);
    if (one.nodePort !== undefined && type !== "NodePort" && type !== "LoadBalancer")
      report(`ports[${index}].nodePort`, "is only for the types NodePort and LoadBalancer");
    if (one.name !== undefined) names.add(one.name);
    numbers.add(number);
  });
  if (selector === undefined && type !== "ExternalName")
    problems.push({
      path: "spec",
      reason: "a service without a selector has no pods, so that its name does not resolve",
      kind: "passedOver",
    });
  const rest = { ports, publishNotReadyAddresses, externalName, sessionAffinity };
  return { ...originOf(item), type, isHeadless, selector, ...rest };
}
