/** Which program made a pod, and how that is known. */
import { containerNameLabel } from "../../domain/labels.js";
import { parseName } from "../../domain/names.js";
import type { ContainerFact, PodFact } from "./facts.js";

export type Maker = "this program" | "dockershim" | "cri-dockerd" | "dockershim or cri-dockerd";

export interface MadeBy {
  readonly maker: Maker;
  readonly evidence: string;
}

/** Labels of this program name the sandbox. The checksum of the checkpoint tells the two others apart. */
export function makerOf({ sandbox, containers, checkpoints, record }: PodFact): MadeBy {
  if (sandbox?.isMadeHere === true) return { maker: "this program", evidence: "label dockershim.label-keys" };
  const readable = checkpoints.find(({ flavour }) => flavour !== undefined);
  if (readable !== undefined) {
    const { flavour, path } = readable;
    if (flavour === "criDockerd")
      return { maker: "cri-dockerd", evidence: `checksum of cri-dockerd in ${path}` };
    if (record !== undefined && sandbox?.logDriver === "none")
      return { maker: "this program", evidence: `record ${record.path}` };
    return { maker: "dockershim", evidence: `checksum of dockershim in ${path}` };
  }
  const corrupt = checkpoints[0];
  if (corrupt?.path.startsWith("/var/lib/cri-dockerd/") === true)
    return { maker: "cri-dockerd", evidence: `place of the corrupt checkpoint ${corrupt.path}` };
  if (sandbox?.logDriver === "none") return { maker: "this program", evidence: "log driver none" };
  if (sandbox?.privileged === true)
    return { maker: "cri-dockerd", evidence: "a privileged sandbox, which dockershim never makes" };
  if (sandbox === undefined && containers.some(({ isMadeHere }) => isMadeHere))
    return { maker: "this program", evidence: "label dockershim.label-keys of a container" };
  return {
    maker: "dockershim or cri-dockerd",
    evidence: "no readable checkpoint, and nothing else distinguishes the two",
  };
}

/** As kubectl shows them: `namespace/pod`. */
export function podName({ namespace, name }: PodFact): string {
  return `${namespace}/${name}`;
}

export function containerOf(pod: PodFact, container: ContainerFact): string {
  const name = container.labels[containerNameLabel] ?? parseName(container.name)?.container ?? container.name;
  return `container ${podName(pod)}/${name}`;
}
