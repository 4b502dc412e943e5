/** Pods as dockershim and cri-dockerd make them, made through the engine. */
import { join } from "node:path";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { createContainer, startContainer } from "./docker.js";
import { runLabel, type TestBed } from "./test-bed.js";

export interface LegacyPod {
  readonly name: string;
  /** Ids. */
  readonly sandbox: string;
  readonly container: string;
  /** Where its log is to be: dockershim and cri-dockerd put a link there. */
  readonly log: string;
}

/** A running sandbox with a running container: names, labels and modes of both programs. */
export async function makeLegacyPod(
  bed: TestBed,
  command: readonly string[] = ["sleep", "1000"],
): Promise<LegacyPod> {
  const name = bed.newName("old");
  const log = join(bed.directory, name, "0.log");
  const uid = `uid-${name}`;
  const kubelet = {
    [runLabel]: bed.run,
    "io.kubernetes.pod.name": name,
    "io.kubernetes.pod.namespace": "old-ns",
    "io.kubernetes.pod.uid": uid,
  };
  const sandbox = await createContainer(`k8s_POD_${name}_old-ns_${uid}_3`, {
    Image: builtinPauseReference,
    Hostname: name,
    Labels: {
      ...kubelet,
      "io.kubernetes.container.name": "POD",
      "io.kubernetes.docker.type": "podsandbox",
      "annotation.kubernetes.io/config.source": "api",
    },
    HostConfig: { IpcMode: "shareable", SecurityOpt: ["no-new-privileges"], CpuShares: 2 },
  });
  await startContainer(sandbox);
  const container = await createContainer(`k8s_web_${name}_old-ns_${uid}_7`, {
    Image: bed.image,
    Entrypoint: command,
    Labels: {
      ...kubelet,
      "io.kubernetes.container.name": "web",
      "io.kubernetes.docker.type": "container",
      "io.kubernetes.sandbox.id": sandbox,
      "io.kubernetes.container.logpath": log,
      "annotation.io.kubernetes.container.hash": "abcd",
    },
    HostConfig: {
      ...{ NetworkMode: `container:${sandbox}`, IpcMode: `container:${sandbox}` },
      LogConfig: { Type: "json-file", Config: {} },
    },
  });
  await startContainer(container);
  return { name, sandbox, container, log };
}
