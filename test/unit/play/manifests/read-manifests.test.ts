import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { derivedUid } from "../../../../src/play/manifests/make-pod.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { podWith, readOnePod } from "../fake-cri.js";

const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n";
const minimal = `${head}spec: {containers: [{name: c, image: busybox}]}\n`;

/** The lines of the one error for `text`, without its first. */
async function problemsOf(
  text: string,
): Promise<{ readonly kind: string; readonly lines: readonly string[] }> {
  try {
    await readWorkloads([{ name: "f.yaml", text }]);
  } catch (error) {
    assert.ok(error instanceof ShimError);
    const [first = "", ...lines] = error.message.split("\n");
    assert.match(first, /^nothing was started: /);
    return { kind: error.kind, lines: lines.map((line) => line.trim()) };
  }
  throw new Error("no error");
}

describe("readWorkloads()", () => {
  test("lists every field that is refused, with document, line and path, in one error", async () => {
    const text = `${minimal}---
apiVersion: v1
kind: Pod
metadata: {name: two, ownerReferences: []}
spec:
  affinity: {nodeAffinity: {}}
  hostnameOverride: a
  containers:
    - name: c
      image: busybox
      env: [{name: A, valueFrom: {fileKeyRef: {}}}]
      volumeDevices: []
      securityContext: {windowsOptions: {}}
      resources: {limits: {example.com/gpu: 1}}
  volumes: [{name: v, nfs: {}}]
`;
    const { kind, lines } = await problemsOf(text);
    assert.equal(kind, "unsupported");
    assert.deepEqual(
      lines.map((line) => line.split(": ").slice(0, 2).join(": ")),
      [
        ["11", "spec.hostnameOverride"],
        ["15", "spec.containers[0].env[0].valueFrom.fileKeyRef"],
        ["16", "spec.containers[0].volumeDevices"],
        ["17", "spec.containers[0].securityContext.windowsOptions"],
        ["18", 'spec.containers[0].resources.limits["example.com/gpu"]'],
        ["19", "spec.volumes[0].nfs"],
      ].map(([line, path]) => `f.yaml, document 2, line ${line ?? ""}: ${path ?? ""}`),
    );
  });

  /** A pod with other fields of its container and its spec, or another metadata. */
  const spec = (container: string, rest = ""): string =>
    `${head}spec: {${rest}containers: [{name: c, image: x, ${container}}]}\n`;
  const named = (metadata: string): string => minimal.replace("name: web", metadata);
  const refused: readonly (readonly [string, string, RegExp])[] = [
    [
      "a version of the past",
      "apiVersion: extensions/v1beta1\nkind: Deployment\n",
      /line 2: kind: .* the apiVersion of a Deployment is apps\/v1/,
    ],
    ["an unknown kind", "apiVersion: v1\nkind: Pot\n", /"v1 Pot" is not a kind that play knows/],
    ["a kustomization", "apiVersion: kustomize.config.k8s.io/v1\nkind: Kustomization\n", /kustomize build/],
    ["an unknown field", spec("Command: []"), /the field is command/],
    ["a document without kind", "metadata: {}\n", /kind and apiVersion must be given/],
    ["a list as document", "- 1\n", /f\.yaml, line 1: must be a mapping/],
    ["a missing name", minimal.replace("{name: web}", "{}"), /metadata\.name: is missing/],
    ["no containers", `${head}spec: {containers: []}\n`, /spec\.containers: must not be empty/],
    ["a number as env value", spec("env: [{name: A, value: 1}]"), /quote it/],
    ["a negative limit", spec("resources: {limits: {cpu: -1}}"), /negative/],
    ["a path as pod name", named("name: ../web"), /metadata\.name: must be/],
    ["a path as uid", named('name: web, uid: "../x"'), /metadata\.uid: must be/],
    ["a path as volume name", spec("", "volumes: [{name: ..}], "), /volumes\[0\]\.name/],
    ["a relative hostPath", spec("", "volumes: [{name: v, hostPath: {path: a}}], "), /absolute/],
    [
      "an annotation that older kubelets obey",
      named("name: web, annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}"),
      /use appArmorProfile/,
    ],
    ["text for a boolean", spec("", 'hostNetwork: "yes", '), /must be true or false/],
    ["the same pod twice", `${minimal}---\n${minimal}`, /also in f\.yaml, document 1, line 1/],
    [
      "two pods with one uid, which would share their files",
      `${named("name: one, uid: u-1")}---\n${named("name: two, uid: u-1")}`,
      /metadata\.uid: is also that of the pod default\/one/,
    ],
    ...["play-owner", "play-hash"].map(
      (key) =>
        [
          `the annotation dockershim.local/${key}, by which play knows its pods`,
          named(`name: web, annotations: {dockershim.local/${key}: x}`),
          new RegExp(`metadata\\.annotations.*${key}.*is reserved for marks of play`),
        ] as const,
    ),
  ];
  for (const [what, text, expected] of refused) {
    test(`refuses ${what}`, async () => {
      assert.match((await problemsOf(text)).lines.join("\n"), expected);
    });
  }

  for (const [what, text] of [
    ["broken YAML", "a: ["],
    ["a key given twice", "a: 1\na: 2\n"],
    [
      "more aliases than a manifest needs",
      `a: &a [x,x,x,x,x,x,x,x,x]\n${"bcdefgh"
        .split("")
        .map((key, at) => `${key}: &${key} [${`*${"abcdefgh"[at] ?? ""},`.repeat(9)}]\n`)
        .join("")}`,
    ],
    ["a file without a pod", "# nothing\n"],
  ] as const) {
    test(`refuses ${what} with the name of the file`, async () => {
      await assert.rejects(readWorkloads([{ name: "f.yaml", text }]), /f\.yaml/);
    });
  }

  test("reads the pods of a List, and names their place in errors", async () => {
    const list = (items: string): string => `apiVersion: v1\nkind: List\nitems: [${items}]\n`;
    const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}";
    const { pods } = await readWorkloads([{ name: "f.yaml", text: list(pod) }]);
    assert.deepEqual(
      pods.map(({ key }) => key.name),
      ["a"],
    );
    const { lines } = await problemsOf(list(pod.replace("image: x", "image: x, lifecycles: {}")));
    assert.match(lines[0] ?? "", /^f\.yaml, line 3: items\[0\]\.spec\.containers\[0\]\.lifecycles: /);
  });

  test("takes nulls, an empty status and a left-out restartPolicy as kubectl writes them", async () => {
    const text = minimal.replace("name: web", "name: web, creationTimestamp: null") + "status: {}\n";
    assert.equal((await readOnePod(text)).pod.spec.restartPolicy, undefined);
  });

  test("derives the uid from the name alone, and the hash from the content", async () => {
    const one = await readOnePod(minimal);
    const other = await readOnePod(minimal.replace("busybox", "busybox:2"));
    assert.equal(one.key.uid, other.key.uid);
    assert.match(one.key.uid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.notEqual(one.hash, other.hash);
    assert.notEqual(derivedUid("default", "a"), derivedUid("other", "a"));
  });

  test("hashes the content and not its spelling", async () => {
    const one = await readOnePod(minimal);
    const other = await readOnePod(
      `kind: Pod\napiVersion: "v1" # c\nmetadata: {"name": web}\nspec: {containers: [{image: busybox, name: c}]}`,
    );
    assert.equal(one.hash, other.hash);
  });

  test("reads numbers with a leading zero as octal, as kubectl does", async () => {
    for (const [spelling, mode] of [
      ["0400", 0o400],
      ["0644", 0o644],
      ["0o644", 0o644],
      ["420", 0o644],
      ["0", 0],
    ] as const) {
      const secret = `{secretName: s, optional: true, defaultMode: ${spelling}}`;
      const { pod } = await podWith(
        `  containers: [{name: c, image: busybox}]\n  volumes: [{name: v, secret: ${secret}}]`,
      );
      assert.equal(pod.spec.volumes?.[0]?.secret?.defaultMode, mode, spelling);
    }
  });

  test("reads all examples", async () => {
    for (const name of ["hello.yaml", "shop.yaml", "two-containers.yaml"].map((file) => `examples/${file}`)) {
      const text = readFileSync(new URL(`../../../../${name}`, import.meta.url), "utf8");
      assert.ok((await readWorkloads([{ name, text }])).pods.length > 0);
    }
  });
});
