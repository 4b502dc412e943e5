/** Puts the stand-in into the place of a workload's images, and of the programs that its probes and hooks run. */

/** @typedef {import("./read-workloads.mjs").Workload} Workload */
/** @typedef {import("./read-workloads.mjs").Value} Value */

/** The pod template, or the spec of a Pod. @param {Value} object @returns {Value} */
export function podSpecOf(object) {
  const { spec } = object["kind"] === "CronJob" ? object["spec"].jobTemplate : object;
  return object["kind"] === "Pod" ? spec : (spec.template.spec ?? {});
}

/** @param {Value} spec @returns {Value[]} */
export const containersOf = (spec) => [...(spec["initContainers"] ?? []), ...(spec["containers"] ?? [])];

/** @param {Value} container @returns {Value[]} probes and hooks */
function handlersOf({ livenessProbe, readinessProbe, startupProbe, lifecycle }) {
  const all = [livenessProbe, readinessProbe, startupProbe, lifecycle?.postStart, lifecycle?.preStop];
  return all.filter((handler) => handler instanceof Object);
}

/** The programs that probes and hooks run in the containers. @param {Workload} workload */
export function programsOf({ object }) {
  return containersOf(podSpecOf(object))
    .flatMap(handlersOf)
    .map(({ exec }) => exec?.command?.[0])
    .filter((name) => typeof name === "string" && /^[\w./-]+$/.test(name) && name !== "/stand-in");
}

/** What the stand-in of one container does. @param {Value} container @param {boolean} ends @returns {string[]} */
function wordsOf(container, ends) {
  if (ends) return ["exit"];
  const { ports = [] } = container;
  const named = new Map(ports.map((/** @type {Value} */ port) => [port["name"], port["containerPort"]]));
  const probed = handlersOf(container)
    .map(({ httpGet, tcpSocket, grpc }) => (httpGet ?? tcpSocket ?? grpc)?.port)
    .filter((port) => port !== undefined)
    .map((port) => `tcp:${named.get(port) ?? port}`);
  const own = ports.map(
    (/** @type {Value} */ { containerPort, protocol = "TCP" }) =>
      `${protocol.toLowerCase()}:${containerPort}`,
  );
  return [...new Set([...own, ...probed])];
}

/**
 * The workload's document with the stand-in, as YAML that is otherwise the author's text.
 * @param {Workload} workload
 * @param {{ any: string, nonRoot: string }} images `nonRoot`: for what must not run as root, and names no user
 */
export function standIn({ object, node }, images) {
  const prefix = ["spec", ...(object["kind"] === "CronJob" ? ["jobTemplate", "spec"] : [])];
  const path = object["kind"] === "Pod" ? prefix : [...prefix, "template", "spec"];
  const spec = podSpecOf(object);
  const ends = object["kind"] === "Job" || (spec["restartPolicy"] ?? "Always") !== "Always";
  for (const list of ["initContainers", "containers"]) {
    for (const [index, container] of (spec[list] ?? []).entries()) {
      if (!(container instanceof Object)) continue;
      const at = [...path, list, index];
      const isInit = list === "initContainers" && container["restartPolicy"] !== "Always";
      const words = wordsOf(container, isInit || (ends && container["restartPolicy"] !== "Always"));
      const before = Array.isArray(container["command"])
        ? ["--", ...container["command"].map(String)]
        : ["--"];
      const { runAsNonRoot } = { ...spec["securityContext"], ...container["securityContext"] };
      const image = runAsNonRoot === true ? images.nonRoot : images.any;
      if (container["image"] !== undefined) node.setIn([...at, "image"], image);
      // No registry has the stand-in.
      if (container["imagePullPolicy"] === "Always") node.setIn([...at, "imagePullPolicy"], "IfNotPresent");
      node.setIn([...at, "command"], ["/stand-in", ...words, ...before]);
      for (const probe of ["livenessProbe", "readinessProbe", "startupProbe"]) {
        // The stand-in has no certificate.
        if (container[probe]?.httpGet?.scheme === "HTTPS")
          node.setIn([...at, probe, "httpGet", "scheme"], "HTTP");
      }
    }
  }
  return String(node);
}
