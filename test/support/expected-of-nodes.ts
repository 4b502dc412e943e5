/** What `migrate check` says of each pod of a MigrationNode. */
import type { Target } from "../../src/migrate/kubelet/target.js";
import type { Maker, NodeKind, NodeNetwork, NodePod } from "./migration-node.js";

export const makerNames: Readonly<Record<Maker, string>> = {
  dockershim: "dockershim",
  "cri-dockerd": "cri-dockerd",
  ours: "this program",
};

export interface ExpectedPod {
  readonly maker: string;
  readonly network: string;
  readonly verdict: string;
  readonly findings: readonly string[];
}

export function expectedOf(
  { maker, isHost }: Pick<NodePod, "maker" | "isHost">,
  network: NodeNetwork,
  target: Target,
): ExpectedPod {
  const findings = findingsOf(maker, isHost ? "host" : network, target);
  const isChange = findings.some((id) => /^way-back-(log|host-ports|kubenet-ports)$/.test(id));
  const stays = maker === "ours" && target === "dockershim" ? "stays as it is" : "adopted as it is";
  const isMadeAgain = findings.includes("pod-made-again");
  return {
    maker: makerNames[maker],
    network: isHost ? "host" : network === "no-op" ? "docker" : network,
    verdict: isMadeAgain ? "is made again" : isChange ? "continues, with a change" : stays,
    findings,
  };
}

function findingsOf(maker: Maker, network: NodeNetwork | "host", target: Target): readonly string[] {
  if (target === "containerd" || target === "cri-o") return ["pod-made-again"];
  // dockershim and cri-dockerd link the log to Docker's file.
  if (target === "dockershim") return maker === "ours" ? [] : ["pod-log-link"];
  const isOurs = maker === "ours";
  // All pods have host ports; those of Docker's network are Docker's.
  const hasHostPorts = network === "cni" || network === "kubenet";
  // This program has the directory and the checksum of dockershim.
  const findsCheckpoint = (target === "cri-dockerd") === (maker === "cri-dockerd");
  return [
    ...(isOurs ? ["way-back-log"] : []),
    ...(!findsCheckpoint && hasHostPorts ? ["way-back-host-ports"] : []),
    ...(!findsCheckpoint && !hasHostPorts ? ["way-back-checkpoint"] : []),
    ...(isOurs && network === "kubenet" ? ["way-back-kubenet-ports"] : []),
    ...(isOurs ? ["way-back-label-keys"] : []),
  ];
}

/** The runtime that the kubelet's files name. */
export const configuredOn: Readonly<Record<NodeKind, Target>> = {
  dockershim: "dockershim-in-tree",
  "cri-dockerd": "cri-dockerd",
  ours: "dockershim",
  mixed: "dockershim",
};

/** Where the kubelet's version, that of the node's kind, does not go. */
export const refusedByKubelet: Readonly<Record<NodeKind, readonly Target[]>> = {
  dockershim: ["cri-dockerd"],
  "cri-dockerd": ["dockershim-in-tree"],
  ours: [],
  mixed: ["dockershim-in-tree"],
};

/** Keys of the intended differences between answers of dockershim or cri-dockerd and those of this program. */
export function intendedOf(maker: "dockershim" | "cri-dockerd"): readonly string[] {
  return [
    ...(maker === "cri-dockerd" ? ["api-version"] : []),
    ...["containers-of-the-pod", "created-at-seconds", "handlers-and-features", "never-started"],
    ...["newer-fields", "rpc-not-offered"],
  ];
}

/**
 * What a read-only server does not know of pods: the PID mode of its own ones is in their records, and users are
 * read through a container.
 */
export const unknownToReadOnly =
  /^(status|containers_statuses\[\])\.user$|^status\.linux\.namespaces\.options\.pid$/;
