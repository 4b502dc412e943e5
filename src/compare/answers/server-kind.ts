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

/** By Version and Status: cri-dockerd alone answers API version `v1`, this program alone features. */
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
