/** Whether pods are as they were made: by this program's answers, and by the rules of the legacy programs. */
import { join } from "node:path";
import type { CriConnection } from "../../client/cri-connection.js";
import { ContainerState, PodSandboxState } from "../../domain/cri.js";
import { containerType, sandboxIdLabel, sandboxType, typeLabel } from "../../domain/labels.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import { containerSubject, type MadePod, podSubject, rehearsalLabel } from "./scratch-pods.js";
import { readStatuses, type Statuses } from "./statuses.js";
import type { Problem } from "./verdict.js";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import type { Flavour } from "../../../checkpoints/checksum.js";
import { flavourName } from "../../../checkpoints/files-at-rest.js";
import { maximumFileBytes } from "../../../checkpoints/file-format.js";
import { readRegularFile } from "../../lib/files/state-files.js";

/** As a kubelet lists and asks. `before`: what the engine said of each container when the pods were made. */
export async function checkAnswers(
  pods: readonly MadePod[],
  cri: CriConnection,
  before: ReadonlyMap<string, Snapshot>,
  signal: AbortSignal,
): Promise<{ readonly problems: readonly Problem[]; readonly statuses: Statuses }> {
  const problems: Problem[] = [];
  const statuses = await readStatuses(pods, cri, signal);
  for (const pod of pods) {
    const subject = podSubject(pod);
    const expect = (of: string, what: string, found: unknown, wanted: unknown): void => {
      if (canonical(found) === canonical(wanted)) return;
      problems.push({ subject: of, text: `${what} is ${canonical(found)}, was ${canonical(wanted)}` });
    };
    const { config } = pod.recorded;
    const isListed = statuses.listedPods.get(pod.id);
    expect(subject, "its state in the list", isListed?.state, PodSandboxState.SANDBOX_READY);
    const answer = statuses.pods.get(pod.id)?.answer;
    if (answer !== undefined && "status" in answer) {
      const { status } = answer;
      expect(subject, "metadata", status?.metadata, config.metadata);
      expect(subject, "labels", without(status?.labels ?? {}, rehearsalLabel), config.labels);
      expect(subject, "annotations", status?.annotations, config.annotations);
      const made = String(before.get(pod.id)?.created);
      expect(subject, "the time of creation", String(status?.created_at), made);
      const [address = ""] = pod.addresses ?? before.get(pod.id)?.addresses ?? [];
      expect(subject, "the address", status?.network?.ip ?? "", address);
    } else if (answer !== undefined) problems.push({ subject, text: answer.error.message });
    for (const container of pod.containers) {
      const of = containerSubject(pod, container);
      const listed = statuses.listedContainers.get(container.id);
      const { started, config: asked } = container.recorded;
      const state = started ? ContainerState.CONTAINER_RUNNING : ContainerState.CONTAINER_CREATED;
      expect(of, "its state in the list", listed?.state, state);
      expect(of, "its sandbox", listed?.pod_sandbox_id, pod.id);
      const said = statuses.containers.get(container.id)?.answer;
      if (said !== undefined && "status" in said) {
        const { status } = said;
        const start = before.get(container.id)?.state.started ?? 0n;
        expect(of, "metadata", status?.metadata, asked.metadata);
        expect(of, "labels", without(status?.labels ?? {}, rehearsalLabel), asked.labels);
        expect(of, "annotations", status?.annotations, asked.annotations);
        expect(of, "the time of the start", String(status?.started_at), String(start));
      } else if (said !== undefined) problems.push({ subject: of, text: said.error.message });
    }
  }
  return { problems, statuses };
}

/** What dockershim and cri-dockerd would not list: they read pod and attempt from names of six or seven fields. */
export async function checkByLegacyRules(
  ids: readonly string[],
  engine: ContainerCalls,
  signal: AbortSignal,
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  for (const id of ids) {
    const snapshot = await engine.inspectContainer(id, signal);
    if (snapshot === undefined) {
      problems.push({ subject: `container ${id}`, text: "is gone" });
      continue;
    }
    const { name, labels } = snapshot;
    const subject = `container ${name}`;
    const fields = name.split("_");
    const isName = (fields.length === 6 || fields.length === 7) && fields[0] === "k8s";
    if (!isName || !/^\d+$/.test(fields[5] ?? ""))
      problems.push({ subject, text: "its name cannot be parsed" });
    const type = labels[typeLabel];
    if (type !== sandboxType && type !== containerType)
      problems.push({ subject, text: "it has no type label" });
    if (type === containerType && (labels[sandboxIdLabel] ?? "") === "")
      problems.push({ subject, text: "it has no label with its sandbox" });
  }
  return problems;
}

function without(labels: Readonly<Record<string, string>>, key: string): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => name !== key));
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}

/** Whether the checkpoints of a rehearsal are those that dockershim and cri-dockerd would read. */
interface ExpectedCheckpoint {
  readonly id: string;
  readonly subject: string;
  readonly namespace: string;
  readonly name: string;
  /** The flavour of the program that made the pod, which reads the file again. */
  readonly flavour: Flavour;
}

export async function checkCheckpoints(
  directory: string,
  expected: readonly ExpectedCheckpoint[],
): Promise<readonly Problem[]> {
  const problems: Problem[] = [];
  for (const { id, subject, namespace, name, flavour } of expected) {
    const reading = await readRegularFile(join(directory, id), maximumFileBytes);
    const add = (text: string): void => void problems.push({ subject, text: `its checkpoint ${text}` });
    if (reading.kind !== "read") {
      add(reading.kind === "absent" ? "is missing" : `is ${reading.reason}`);
      continue;
    }
    const found = decodeCheckpoint(reading.bytes);
    if (found.kind === "corrupt") add(`is corrupt: ${found.reason}`);
    else if (found.flavour !== flavour)
      add(`has the checksum of ${flavourName(found.flavour)}, not of ${flavourName(flavour)}`);
    else if (found.checkpoint.namespace !== namespace || found.checkpoint.name !== name)
      add(`is that of ${found.checkpoint.namespace}/${found.checkpoint.name}`);
  }
  return problems;
}
