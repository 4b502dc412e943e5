import assert from "node:assert/strict";
import { test } from "node:test";
import { volumeMounts, volumePreparations } from "../../../../src/play/containers/volumes.js";
import { makeFixture, podWith } from "../fake-cri.js";

const { directories } = makeFixture().deps;
const spec = `
  securityContext: {fsGroup: 7}
  volumes: [{name: e, emptyDir: {}}, {name: none}, {name: h, hostPath: {path: /srv/x/, type: DirectoryOrCreate}}]
  containers:
    - name: c
      image: x
      volumeMounts:
        - {name: e, mountPath: data, subPath: a/b}
        - {name: h, mountPath: /h/, readOnly: true, mountPropagation: HostToContainer}
`;

test("volumePreparations() gives an emptyDir the fsGroup, and makes one of a volume without a source", async () => {
  const { pod, key } = await podWith(spec);
  assert.deepEqual(volumePreparations(pod.spec, key, directories), [
    { kind: "emptyDir", path: "/state/uid-1/volumes/empty-dir/e", group: 7 },
    { kind: "emptyDir", path: "/state/uid-1/volumes/empty-dir/none", group: 7 },
    { kind: "hostPath", path: "/srv/x", type: "DirectoryOrCreate" },
  ]);
});

test("volumeMounts() makes container paths absolute and relabels only what play made", async () => {
  const { pod, key } = await podWith(spec);
  const [container] = pod.spec.containers;
  assert.ok(container);
  const mounts = volumeMounts(container, pod.spec, key, directories, { seLinux: true }, new Map());
  assert.deepEqual(mounts, [
    {
      volumePath: "/state/uid-1/volumes/empty-dir/e",
      subPath: "a/b",
      mount: {
        container_path: "/data",
        host_path: "/state/uid-1/volumes/empty-dir/e",
        readonly: false,
        recursive_read_only: false,
        propagation: 0,
        selinux_relabel: true,
      },
    },
    {
      volumePath: "/srv/x",
      subPath: "",
      mount: {
        container_path: "/h",
        host_path: "/srv/x",
        readonly: true,
        recursive_read_only: false,
        propagation: 1,
        selinux_relabel: false,
      },
    },
  ]);
});

const modelSpec = `
  volumes: [{name: m, image: {reference: "model:1"}}]
  containers:
    - name: c
      image: x
      volumeMounts: [{name: m, mountPath: /m/}, {name: m, mountPath: n, subPath: a/b, readOnly: false}]
`;

test("volumePreparations() has nothing to make of an image volume", async () => {
  const { pod, key } = await podWith(modelSpec);
  assert.deepEqual(volumePreparations(pod.spec, key, directories), []);
});

test("volumeMounts() mounts an image read-only, and leaves its sub path to the CRI", async () => {
  const { pod, key } = await podWith(modelSpec);
  const [container] = pod.spec.containers;
  assert.ok(container);
  const image = { image: "sha256:1", user_specified_image: "model:1" };
  const images = new Map([["m", image]]);
  const mounts = volumeMounts(container, pod.spec, key, directories, { seLinux: true }, images);
  const mount = (container_path: string, image_sub_path: string) => ({
    volumePath: "",
    subPath: "",
    mount: { container_path, image, image_sub_path, readonly: true },
  });
  assert.deepEqual(mounts, [mount("/m", ""), mount("/n", "a/b")]);
});
