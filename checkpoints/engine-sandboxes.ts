/** What the engine's labels and create bodies say of sandboxes: enough to write their checkpoints again. */
import { sandboxContainerName, sandboxType, typeLabel } from "../src/domain/labels.js";
import { parseName } from "../src/domain/names.js";
import type { BoundPort, Snapshot } from "../src/domain/snapshot.js";
import type { CheckpointPortMapping } from "../src/shim/ports/checkpoint-store.js";
import type { ContainerCalls } from "../src/shim/ports/engine.js";
import type { EngineSandbox, EngineSandboxes } from "./repair-files.js";

type Calls = Pick<ContainerCalls, "listContainers" | "inspectContainer">;

export async function engineSandboxes(engine: Calls, signal: AbortSignal): Promise<EngineSandboxes> {
  const listed = await engine.listContainers({ labelKey: typeLabel, labelValue: sandboxType }, signal);
  const ids = new Set(listed.map(({ id }) => id));
  return {
    ids: [...ids],
    read: async (id) => {
      if (!ids.has(id)) return undefined;
      const snapshot = await engine.inspectContainer(id, signal);
      return snapshot === undefined ? undefined : sandboxOf(snapshot);
    },
  };
}

/** A string says why the container has no answer. */
export function sandboxOf(snapshot: Snapshot): EngineSandbox | string {
  const name = parseName(snapshot.name);
  if (name?.container !== sandboxContainerName)
    return `the engine's container has the name ${JSON.stringify(snapshot.name)}, which is not that of a sandbox`;
  const portMappings = (snapshot.portBindings ?? []).flatMap(toPortMapping);
  const hostNetwork = snapshot.networkMode === "host";
  return {
    checkpoint: {
      version: "v1",
      name: name.pod.name,
      namespace: name.pod.namespace,
      data: {
        ...(portMappings.length > 0 ? { portMappings } : {}),
        ...(hostNetwork ? { hostNetwork: true } : {}),
      },
    },
    ...whyPortsAreUnknown(snapshot),
  };
}

/** Only this program, known by its log driver, gives host ports to Docker just where Docker publishes them. */
function whyPortsAreUnknown({
  portBindings,
  networkMode,
  logDriver,
  isTrimmed,
}: Snapshot): Pick<EngineSandbox, "portsUnknown"> {
  if (isTrimmed === true)
    return { portsUnknown: "host ports are unknown: the engine's description is too large" };
  if (portBindings === undefined && logDriver === "none" && networkMode === "none")
    return { portsUnknown: "host ports are unknown: they were given to the network plugin alone" };
  return {};
}

function toPortMapping({ port, hostIp, hostPort }: BoundPort): readonly CheckpointPortMapping[] {
  const [, containerPort, protocol] = /^(\d{1,5})\/(tcp|udp|sctp)$/.exec(port) ?? [];
  // A range or a port that Docker chooses: not from a pod.
  if (containerPort === undefined || !/^\d{1,5}$/.test(hostPort)) return [];
  return [
    {
      protocol: protocol as CheckpointPortMapping["protocol"],
      containerPort: Number(containerPort),
      hostPort: Number(hostPort),
      ...(hostIp === "" ? {} : { hostIp }),
    },
  ];
}
