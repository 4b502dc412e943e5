/** Which program serves a CRI socket, by what it answers. */
import { textAt, valueAt } from "./answer-shape.js";

export const serverKinds = {
  dockershim: "this program",
  "kubelet-dockershim": "the dockershim in kubelets up to 1.23",
  "cri-dockerd": "cri-dockerd",
  containerd: "containerd",
  "cri-o": "CRI-O",
  other: "another CRI server",
} as const;
export type ServerKind = keyof typeof serverKinds;

/**
 * By the answers to Version and Status. Three programs have the runtime name `docker`: cri-dockerd alone
 * answers `v1` as its API version, and this program alone answers features.
 */
export function serverKind(version: object, status: object): ServerKind {
  switch (textAt(version, "runtime_name")) {
    case "docker":
      if (textAt(version, "runtime_api_version") === "v1") return "cri-dockerd";
      return (valueAt(status, "features") ?? null) === null ? "kubelet-dockershim" : "dockershim";
    case "containerd":
      return "containerd";
    case "cri-o":
      return "cri-o";
    default:
      return "other";
  }
}
