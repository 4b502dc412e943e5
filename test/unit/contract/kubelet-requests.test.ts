/**
 * What real kubelets send (recorded, defaults left out) is taken: fields that they fill without need must not be refused.
 * `test/golden/kubelet-requests.json` has pods with many features, of kubelets from the oldest one that is served on.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import type {
  CreateContainerRequest,
  RunPodSandboxRequest,
  UpdateContainerResourcesRequest,
  UpdatePodSandboxResourcesRequest,
} from "../../../src/domain/cri.js";
import { ImageUserFiles } from "../../../src/domain/image-users.js";
import { validateRequest } from "../../../src/shim/cri/rpcs.js";
import { planContainer, type ContainerInputs } from "../../../src/shim/plan/container-plan.js";
import { imageVolumeNeeds } from "../../../src/shim/plan/image-volumes.js";
import { planSandbox } from "../../../src/shim/plan/sandbox-plan.js";
import { api } from "../grpc/test-server.js";
import { containerContext, nodeFacts, sandboxContext, sandboxId } from "../plan/builders.js";

type Sparse = Readonly<Record<string, unknown>>;

interface RecordedPod {
  readonly kubelet: string;
  readonly pod: string;
  readonly sandbox: Sparse;
  /** The config of each container, by its name. */
  readonly containers: Readonly<Record<string, Sparse>>;
  readonly updates?: Readonly<Record<"UpdateContainerResources" | "UpdatePodSandboxResources", Sparse>>;
}

const golden = JSON.parse(
  readFileSync(new URL("../../golden/kubelet-requests.json", import.meta.url), "utf8"),
) as readonly RecordedPod[];
const types = loadSync(new URL("../../../proto/runtime/v1/api.proto", import.meta.url).pathname, {
  keepCase: true,
});

/** As it arrives at the server. */
function received(rpc: string, request: Sparse): object {
  const type = types[`runtime.v1.${rpc}Request`] as MessageTypeDefinition<Sparse, Sparse>;
  const method = api.methods.find(({ path }) => path === `/runtime.v1.RuntimeService/${rpc}`);
  assert.ok(method);
  return method.decodeRequest(type.serialize(request));
}

function createRequest({ sandbox }: RecordedPod, config: Sparse): CreateContainerRequest {
  const envs = (config["envs"] ?? []) as readonly { readonly key: string; readonly value?: string }[];
  const bytes = envs.map(({ key, value = "" }) => ({ key, value: Buffer.from(value) }));
  const request = {
    pod_sandbox_id: sandboxId,
    config: { ...config, envs: bytes },
    sandbox_config: sandbox["config"],
  };
  return received("CreateContainer", request) as CreateContainerRequest;
}

/** What a node and an image without surprises have to say to it. */
function inputsFor({ config }: CreateContainerRequest): ContainerInputs {
  const user = config?.linux?.security_context?.run_as_user?.value ?? "0";
  const imageUser = new ImageUserFiles("", "").resolve(user);
  const volumes = imageVolumeNeeds(config?.mounts ?? []).map(
    ({ index, image }) => [index, { imageId: image, from: { volume: "v" }, subPath: "" }] as const,
  );
  return { imageUser, imageVolumes: new Map(volumes) };
}

describe("the requests of kubelets", () => {
  for (const recorded of golden) {
    const of = `kubelet ${recorded.kubelet}, pod ${recorded.pod}`;

    test(`${of}: the sandbox is planned`, () => {
      const request = received("RunPodSandbox", recorded.sandbox) as RunPodSandboxRequest;
      const plan = planSandbox(validateRequest("RunPodSandbox", request), sandboxContext());
      assert.equal(plan.body.HostConfig.CgroupParent, request.config?.linux?.cgroup_parent);
    });

    for (const [name, config] of Object.entries(recorded.containers)) {
      test(`${of}: container ${name} is planned, each mount from its own path`, () => {
        const request = createRequest(recorded, config);
        const facts = nodeFacts({ apiMinor: 45 });
        const context = containerContext({ facts, inputs: inputsFor(request) });
        const { body } = planContainer(validateRequest("CreateContainer", request), context);
        const binds = body.HostConfig.Mounts?.filter(({ Type }) => Type === "bind");
        const sources = binds?.map(({ Target, Source }) => [Target, Source]);
        const wanted = request.config?.mounts.filter(({ host_path: path }) => path !== "");
        assert.deepEqual(
          sources,
          wanted?.map(({ container_path: target, host_path: source }) => [target, source]),
        );
      });
    }
  }

  test("to resize a pod and its containers are valid", () => {
    const updates = golden.find((recorded) => recorded.updates !== undefined)?.updates;
    assert.ok(updates);
    const container = { container_id: "c", ...updates.UpdateContainerResources };
    const pod = { pod_sandbox_id: sandboxId, ...updates.UpdatePodSandboxResources };
    assert.ok(
      validateRequest(
        "UpdateContainerResources",
        received("UpdateContainerResources", container) as UpdateContainerResourcesRequest,
      ),
    );
    assert.ok(
      validateRequest(
        "UpdatePodSandboxResources",
        received("UpdatePodSandboxResources", pod) as UpdatePodSandboxResourcesRequest,
      ),
    );
  });
});
