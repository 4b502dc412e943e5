import assert from "node:assert/strict";
import { test } from "node:test";
import { podWith } from "../fake-cri.js";

/** A pod with a container of these fields, and lines of its spec. */
const c = (fields: string, spec = ""): string =>
  `  containers: [{name: c, image: x${fields && `, ${fields}`}}]${spec && `\n  ${spec}`}`;
const p = (spec: string): string => c("", spec);
const header = (entry: string): string => c(`readinessProbe: {httpGet: {port: 1, httpHeaders: [${entry}]}}`);
const mounts = (entries: string, volume = "{name: v}"): string =>
  c(`volumeMounts: [${entries}]`, `volumes: [${volume}]`);
const ofImage = "{name: v, image: {reference: a}}";
const mount = "name: v, mountPath: /v";
const security = (fields: string): string =>
  c(`securityContext: {${fields}, allowPrivilegeEscalation: false}`);
const s = (fields: string): string => p(`securityContext: {${fields}}`);
const port5 = "containerPort: 1, hostPort: 5";
const ports = (...entries: readonly string[]): string => c(`ports: [{${entries.join("}, {")}}]`);

const refused: readonly (readonly [string, string, RegExp])[] = [
  ["containers of one name", `${c("").slice(0, -1)}, {name: c, image: x}]`, /containers\[1\]\.name.*twice/],
  ["one of init containers, too", p("initContainers: [{name: c, image: x}]"), /containers\[0\]\.name.*twice/],
  ["a wrong header name", header('{name: "X Ü", value: v}'), /httpGet\.httpHeaders\[0\]\.name: must be/],
  ["a line end in a header", header('{name: X, value: "a\\nb"}'), /\[0\]\.value: must not contain control/],
  ["two volumes of one name", p("volumes: [{name: v}, {name: v}]"), /volumes\[1\]\.name/],
  ["a volume of two kinds", p("volumes: [{name: v, emptyDir: {}, hostPath: {path: /}}]"), /must not be both/],
  [
    "a volume that is an image, too",
    p("volumes: [{name: v, image: {reference: a}, emptyDir: {}}]"),
    /both emptyDir and image/,
  ],
  [
    "propagation of an image volume",
    mounts(`{${mount}, mountPropagation: HostToContainer}`, ofImage),
    /volumeMounts\[0\]\.mountPropagation: an image volume has no mounts to propagate/,
  ],
  ["a mount of no volume", c(`volumeMounts: [{${mount}}]`), /"v" is not in spec\.volumes/],
  [
    "variables from a file of a volume that containers cannot write to",
    c(
      "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: e, key: K}}}]",
      "volumes: [{name: v, downwardAPI: {}}]",
    ),
    /env\[0\]\.valueFrom\.fileKeyRef\.volumeName: must be an emptyDir/,
  ],
  ["two mounts at one path", mounts(`{${mount}}, {${mount}}`), /volumeMounts\[1\]\.mountPath/],
  ["Bidirectional unprivileged", mounts(`{${mount}, mountPropagation: Bidirectional}`), /needs a privileged/],
  ["recursiveReadOnly on a writable one", mounts(`{${mount}, recursiveReadOnly: Enabled}`), /needs readOnly/],
  ["too large a request", c("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), /requests\.cpu: must not/],
  [
    "a request of the pod above its limit",
    p("resources: {requests: {memory: 2G}, limits: {memory: 1G}}"),
    /spec\.resources\.requests\.memory: must not exceed/,
  ],
  [
    "a limit above the pod's",
    c("resources: {limits: {cpu: 2}}", "resources: {limits: {cpu: 1}}"),
    /containers\[0\]\.resources\.limits\.cpu: must not exceed the pod's limit of 1000/,
  ],
  ["privileged without escalation", security("privileged: true"), /cannot be false/],
  ["SYS_ADMIN without escalation", security("capabilities: {add: [SYS_ADMIN]}"), /cannot be false/],
  ["Localhost without a profile", s("seccompProfile: {type: Localhost}"), /localhostProfile: is missing/],
  [
    "a name for RuntimeDefault",
    s("appArmorProfile: {type: RuntimeDefault, localhostProfile: x}"),
    /only for the type Localhost/,
  ],
  [
    "a seccomp profile outside its directory",
    s("seccompProfile: {type: Localhost, localhostProfile: ../x}"),
    /must not contain '\.\.'/,
  ],
  [
    "a host port used twice",
    ports(port5, "containerPort: 2, hostPort: 5"),
    /\[1\]\.hostPort: 5 is used twice/,
  ],
  [
    "another host port on the host network",
    `  hostNetwork: true\n${ports(port5)}`,
    /must be the containerPort/,
  ],
  ["hostPID with a shared namespace", p("hostPID: true\n  shareProcessNamespace: true"), /go with hostPID/],
  ["dnsPolicy None without a server", p("dnsPolicy: None"), /must name a server/],
];

for (const [what, spec, expected] of refused)
  test(`checkPod() refuses ${what}`, async () => {
    await assert.rejects(podWith(spec), expected);
  });

test("checkPod() accepts the same host port for TCP and UDP", async () => {
  await podWith(ports("containerPort: 1, hostPort: 5", "containerPort: 1, hostPort: 5, protocol: UDP"));
});
