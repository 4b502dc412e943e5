/** Annotations by which containerd's shims and OCI runtimes tell the containers of a pod. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Labels } from "../../../src/domain/labels.js";
import { planContainer, type ContainerContext } from "../../../src/shim/plan/container-plan.js";
import { planSandbox } from "../../../src/shim/plan/sandbox-plan.js";
import {
  containerContext,
  createRequest,
  nodeFacts,
  runRequest,
  sandboxContext,
  sandboxId,
} from "./builders.js";

const group = "io.containerd.runc.v2.group";
const facts = nodeFacts({ apiMinor: 43 });
const inRuntime = (runtime: string): Partial<ContainerContext> => ({
  sandbox: { id: sandboxId, hostNetwork: false, snapshot: { pidMode: "", privileged: false, runtime } },
});

function ofContainer(context: Partial<ContainerContext>, annotations: Labels = {}): Labels | undefined {
  const request = createRequest({ annotations }, { annotations, log_directory: "/var/log/pods/p" });
  return planContainer(request, containerContext({ facts, ...context })).body.HostConfig.Annotations;
}

function ofSandbox(handler: string, annotations: Labels = {}, prefixes: readonly string[] = []) {
  const request = runRequest({ annotations, log_directory: "/var/log/pods/p" }, handler);
  const { body } = planSandbox(request, sandboxContext({ facts, allowedAnnotations: prefixes }));
  return body.HostConfig.Annotations;
}

describe("containerd's shim", () => {
  test("of the sandbox runs its containers, too: their group is the id that the sandbox has alone", () => {
    assert.deepEqual(ofContainer({}), { [group]: sandboxId });
    assert.equal(ofSandbox(""), undefined);
  });

  test("is one of each container without the flag, and with engines that know no annotations", () => {
    assert.equal(ofContainer({ oneContainerdShimPerPod: false }), undefined);
    assert.equal(ofContainer({ facts: nodeFacts({ apiMinor: 42 }) }), undefined);
  });

  test("is told by the default runtime where the sandbox names none", () => {
    assert.deepEqual(ofContainer(inRuntime("")), { [group]: sandboxId });
    const other = nodeFacts({ apiMinor: 43, defaultRuntime: "runsc" });
    assert.equal(ofContainer({ ...inRuntime(""), facts: other })?.[group], undefined);
  });
});

describe("a runtime with a containerd shim of its own", () => {
  const pod = {
    "io.kubernetes.cri.sandbox-name": "web-0",
    "io.kubernetes.cri.sandbox-namespace": "default",
    "io.kubernetes.cri.sandbox-uid": "uid-1",
    "io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/p",
  };

  test("learns what is a sandbox", () => {
    assert.deepEqual(ofSandbox("runsc"), { "io.kubernetes.cri.container-type": "sandbox", ...pod });
  });

  for (const [name, changes] of Object.entries({
    "that the engine lists": inRuntime("runsc"),
    "whatever the flag for runc is": { ...inRuntime("runsc"), oneContainerdShimPerPod: false },
  })) {
    test(`learns which sandbox a container is in (${name})`, () => {
      assert.deepEqual(ofContainer(changes), {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-id": sandboxId,
        "io.kubernetes.cri.container-name": "c1",
        "io.kubernetes.cri.image-name": createRequest().config.image.image,
        ...pod,
      });
    });
  }
});

test("a program other than runc below containerd's shim of runc, and an unknown runtime, get none", () => {
  const runtimes = [{ name: "runsc", kind: "other", recursiveReadOnly: false }] as const;
  const other = nodeFacts({ apiMinor: 43, runtimes });
  assert.equal(ofContainer({ ...inRuntime("runsc"), facts: other }), undefined);
  assert.equal(ofContainer(inRuntime("io.containerd.kata.v2")), undefined);
});

describe("annotations of a request that name a pod", () => {
  const foreign = {
    [group]: "f".repeat(64),
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-id": "f".repeat(64),
    "io.kubernetes.cri-o.ContainerType": "container",
    "io.kubernetes.cri-o.SandboxID": "f".repeat(64),
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.sandbox.id": "f".repeat(64),
  };
  const prefixes = Object.keys(foreign);

  test("never reach the OCI runtime, also when their keys are allowed", () => {
    assert.equal(ofSandbox("", foreign, prefixes), undefined);
    const alone = { allowedAnnotations: prefixes, oneContainerdShimPerPod: false };
    assert.equal(ofContainer(alone, foreign), undefined);
    assert.deepEqual(ofContainer({ allowedAnnotations: prefixes }, foreign), { [group]: sandboxId });
  });

  test("do not replace those of the pod", () => {
    const spoofed = {
      "io.kubernetes.cri.sandbox-name": "other",
      "io.kubernetes.cri.container-name": "other",
    };
    const context = { ...inRuntime("runsc"), allowedAnnotations: ["io.kubernetes."] };
    assert.deepEqual(ofContainer(context, { ...foreign, ...spoofed }), ofContainer(inRuntime("runsc")));
    const planned = ofSandbox("runsc", { ...foreign, ...spoofed }, ["io.kubernetes.cri."]);
    assert.equal(planned?.["io.kubernetes.cri.sandbox-name"], "web-0");
  });
});
