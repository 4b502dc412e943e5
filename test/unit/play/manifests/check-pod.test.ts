import assert from "node:assert/strict";
import { test } from "node:test";
import { podWith } from "../fake-cri.js";

const container = "  containers: [{name: c, image: x}]";

const probed = (header: string): string =>
  `  containers: [{name: c, image: x, readinessProbe: {httpGet: {port: 1, httpHeaders: [${header}]}}}]`;

const refused: readonly (readonly [string, string, RegExp])[] = [
  [
    "two containers of one name",
    "  containers: [{name: c, image: x}, {name: c, image: x}]",
    /containers\[1\]\.name.*used twice/,
  ],
  [
    "an init container with a container's name",
    `${container}\n  initContainers: [{name: c, image: x}]`,
    /containers\[0\]\.name.*used twice/,
  ],
  [
    "a header with a name that HTTP cannot have",
    probed('{name: "X Ü", value: v}'),
    /readinessProbe\.httpGet\.httpHeaders\[0\]\.name: must be letters/,
  ],
  [
    "a header with a line end",
    probed('{name: X, value: "a\\nb"}'),
    /httpHeaders\[0\]\.value: must not contain control characters/,
  ],
  ["two volumes of one name", `${container}\n  volumes: [{name: v}, {name: v}]`, /volumes\[1\]\.name/],
  [
    "a volume of two kinds",
    `${container}\n  volumes: [{name: v, emptyDir: {}, hostPath: {path: /a}}]`,
    /must not be both/,
  ],
  [
    "a volume that is an image and a directory",
    `${container}\n  volumes: [{name: v, image: {reference: a}, emptyDir: {}}]`,
    /must not be both emptyDir and image/,
  ],
  [
    "propagation of an image volume",
    "  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v, mountPropagation: HostToContainer}]}]\n  volumes: [{name: v, image: {reference: a}}]",
    /volumeMounts\[0\]\.mountPropagation: an image volume has no mounts to propagate/,
  ],
  [
    "a mount of no volume",
    "  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}]",
    /"v" is not in spec\.volumes/,
  ],
  [
    "two mounts at one path",
    "  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /v}]}]\n  volumes: [{name: v}]",
    /volumeMounts\[1\]\.mountPath/,
  ],
  [
    "Bidirectional without privileges",
    "  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]\n  volumes: [{name: v}]",
    /needs a privileged container/,
  ],
  [
    "recursiveReadOnly on a writable mount",
    "  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v, recursiveReadOnly: Enabled}]}]\n  volumes: [{name: v}]",
    /needs readOnly/,
  ],
  [
    "a request above its limit",
    "  containers: [{name: c, image: x, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]",
    /requests\.cpu: must not exceed/,
  ],
  [
    "a request of the pod above its limit",
    `${container}\n  resources: {requests: {memory: 2G}, limits: {memory: 1G}}`,
    /spec\.resources\.requests\.memory: must not exceed/,
  ],
  [
    "a limit above the pod's",
    "  resources: {limits: {cpu: 1}}\n  containers: [{name: c, image: x, resources: {limits: {cpu: 2}}}]",
    /containers\[0\]\.resources\.limits\.cpu: must not exceed the pod's limit of 1000/,
  ],
  [
    "privileged without escalation",
    "  containers: [{name: c, image: x, securityContext: {privileged: true, allowPrivilegeEscalation: false}}]",
    /cannot be false/,
  ],
  [
    "SYS_ADMIN without escalation",
    "  containers: [{name: c, image: x, securityContext: {capabilities: {add: [SYS_ADMIN]}, allowPrivilegeEscalation: false}}]",
    /cannot be false/,
  ],
  [
    "a Localhost profile without a name",
    `${container}\n  securityContext: {seccompProfile: {type: Localhost}}`,
    /localhostProfile: is missing/,
  ],
  [
    "a name for RuntimeDefault",
    `${container}\n  securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}`,
    /only for the type Localhost/,
  ],
  [
    "a seccomp profile outside its directory",
    `${container}\n  securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x}}`,
    /must not contain '\.\.'/,
  ],
  [
    "a host port used twice",
    "  containers: [{name: c, image: x, ports: [{containerPort: 1, hostPort: 5}, {containerPort: 2, hostPort: 5}]}]",
    /ports\[1\]\.hostPort: 5 is used twice/,
  ],
  [
    "another host port on the host network",
    "  hostNetwork: true\n  containers: [{name: c, image: x, ports: [{containerPort: 1, hostPort: 5}]}]",
    /must be the containerPort/,
  ],
  [
    "hostPID with shareProcessNamespace",
    `${container}\n  hostPID: true\n  shareProcessNamespace: true`,
    /cannot go with hostPID/,
  ],
  ["dnsPolicy None without a server", `${container}\n  dnsPolicy: None`, /must name a server/],
];

for (const [what, spec, expected] of refused) {
  test(`checkPod() refuses ${what}`, async () => {
    await assert.rejects(podWith(spec), expected);
  });
}

test("checkPod() accepts the same host port for TCP and UDP", async () => {
  const ports = "[{containerPort: 1, hostPort: 5}, {containerPort: 1, hostPort: 5, protocol: UDP}]";
  await assert.doesNotReject(podWith(`  containers: [{name: c, image: x, ports: ${ports}}]`));
});
