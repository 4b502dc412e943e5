import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { derivedUid } from "../../../../src/play/manifests/make-pod.js";
import { documentsOf, type PlacedProblem } from "../../../../src/play/manifests/documents.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { readOnePod } from "../fake-cri.js";

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
        ["15", "spec.containers[0].volumeDevices"],
        ["16", "spec.containers[0].securityContext.windowsOptions"],
        ["17", 'spec.containers[0].resources.limits["example.com/gpu"]'],
        ["18", "spec.volumes[0].nfs"],
      ].map(([line, path]) => `f.yaml, document 2, line ${line ?? ""}: ${path ?? ""}`),
    );
  });

  /** A pod with other fields of its container and its spec, or another metadata. */
  const spec = (container: string, rest = ""): string =>
    `${head}spec: {${rest}containers: [{name: c, image: x, ${container}}]}\n`;
  const named = (metadata: string): string => minimal.replace("name: web", metadata);
  const refused: readonly (readonly [string, string, RegExp])[] = [
    ...(
      [
        ["v1 Pot", "is not a kind that play knows: did you mean Pod?"],
        ["extensions/v1beta1 Deployment", "the apiVersion of a Deployment is apps/v1"],
        ["v1 Deployment", "is not served by Kubernetes 1.36: the apiVersion of a Deployment is apps/v1"],
        ["app/v1 Deployment", "the apiVersion of a Deployment is apps/v1"],
        ["apps/v2 Deployment", "the apiVersion of a Deployment is apps/v1"],
        ["apps.k8s.io/v1 Deployment", "the apiVersion of a Deployment is apps/v1"],
        ["apps/v1 Deploymnet", "did you mean Deployment?"],
        ["apps/v1 Canary", "is not a kind that play knows"],
        ["app/v1 Canary", "did you mean the API group apps?"],
        ["v1 Ingress", "its apiVersion is networking.k8s.io/v1 or the like"],
        ["networking.k8s.oi/v1 Ingress", "its apiVersion is networking.k8s.io/v1 or the like"],
        ["networking.k8s.io/1 Ingress", "its apiVersion is networking.k8s.io/v1 or the like"],
        ["networking.k8s.io/v1 Ingres", "did you mean Ingress?"],
        ["networking.k8s.oi/v1 Canary", "did you mean the API group networking.k8s.io?"],
        ["compose Project", "is not a kind that play knows"],
      ] as const
    ).map(([object, reason]) => {
      const [apiVersion = "", kind = ""] = object.split(" ");
      const text = `apiVersion: ${apiVersion}\nkind: ${kind}\n`;
      return [object, text, new RegExp(`kind: "${object}" .*${reason.replace("?", "\\?")}$`)] as const;
    }),
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
    ["a boolean", spec("env: [{name: A, value: yes}]"), /env\[0\]\.value: must be a string \(quote/],
    [
      "a boolean in a ConfigMap",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: on}\n",
      /data\.k: must be a string/,
    ],
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
  for (const [what, text, expected] of refused)
    test(`refuses ${what}`, async () => {
      assert.match((await problemsOf(text)).lines.join("\n"), expected);
    });

  for (const [what, text] of [
    ["broken YAML", "a: ["],
    ["a key that is null", "~: 1\n"],
    ["a key that is a list", "? [a]\n: 1\n"],
    ["an alias without an anchor", "a: *b\n"],
    ["a merge of text", "<<: a\n"],
    ["a tag that the value has not", "a: !!int x\n"],
    [
      "more aliases than a manifest needs",
      `a: &a [x,x,x,x,x,x,x,x,x]\n${"bcdefgh"
        .split("")
        .map((key, at) => `${key}: &${key} [${`*${"abcdefgh"[at] ?? ""},`.repeat(9)}]\n`)
        .join("")}`,
    ],
    ["a file without a pod", "# nothing\n"],
  ] as const)
    test(`refuses ${what} with the name of the file`, async () => {
      await assert.rejects(readWorkloads([{ name: "f.yaml", text }]), /f\.yaml/);
    });

  test("passes over kinds of other groups, and those of Kubernetes that have no meaning here", async () => {
    const kinds = [
      "networking.k8s.io/v1 IngressClass",
      "networking.k8s.io/v1 TrafficSplit",
      "networking.k8s.io/v1 ServiceCIDR",
      "apps/v1 ControllerRevision",
      "autoscaling.k8s.io/v1 VerticalPodAutoscaler",
      "app.k8s.io/v1beta1 Application",
      "policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy",
      "kubeadm.k8s.io/v1beta4 ClusterConfiguration",
      "serving.knative.dev/v1 Service",
      "batch.volcano.sh/v1alpha1 Job",
    ];
    const documents = kinds.map((one) => `---\napiVersion: ${one.replace(" ", "\nkind: ")}\n`);
    const { notices } = await readWorkloads([{ name: "f.yaml", text: minimal + documents.join("") }]);
    assert.deepEqual(
      notices.map(({ object }) => object),
      kinds.map((one) => one.split(" ")[1]),
    );
  });

  test("reads the pods of a List, and names their place in errors", async () => {
    const list = (items: string): string => `apiVersion: v1\nkind: List\nitems: [${items}]\n`;
    const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}";
    const { pods } = await readWorkloads([{ name: "f.yaml", text: list(pod) }]);
    const names = pods.map(({ key }) => key.name);
    assert.deepEqual(names, ["a"]);
    const { lines } = await problemsOf(list(pod.replace("image: x", "image: x, lifecycles: {}")));
    assert.match(lines[0] ?? "", /^f\.yaml, line 3: items\[0\]\.spec\.containers\[0\]\.lifecycles: /);
  });

  test("takes an empty text for none, where a field has a rule and need not be there", async () => {
    const empty = 'serviceAccountName: "", restartPolicy: "", hostname: "", dnsPolicy: ""';
    const { pod } = await readOnePod(minimal.replace("spec: {", `spec: {${empty}, `));
    assert.deepEqual(pod.spec, (await readOnePod(minimal)).pod.spec);
    for (const [old, text, line] of [
      ["name: web", 'name: ""', /metadata\.name: must be/],
      ["spec: {", 'spec: {hostNetwork: "", ', /spec\.hostNetwork: must be true or false/],
    ] as const)
      assert.match((await problemsOf(minimal.replace(old, text))).lines[0] ?? "", line);
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

  test("reads all examples", async () => {
    for (const name of ["hello.yaml", "shop.yaml", "two-containers.yaml"].map((file) => `examples/${file}`)) {
      const text = readFileSync(new URL(`../../../../${name}`, import.meta.url), "utf8");
      assert.ok((await readWorkloads([{ name, text }])).pods.length > 0);
    }
  });
});

describe("documentsOf() reads YAML as kubectl does", () => {
  const read = async (text: string): Promise<readonly [unknown, readonly PlacedProblem[]]> => {
    const problems: PlacedProblem[] = [];
    const [document] = await documentsOf({ name: "f.yaml", text }, problems);
    return [document?.value, problems];
  };

  /** Spellings → values: those of go-yaml v2, as JSON. */
  const scalars: readonly (readonly [string, unknown])[] = [
    ["y Y yes Yes YES true True TRUE on On ON", true],
    ["n N no No NO false False FALSE off Off OFF", false],
    ["~ null Null NULL", null],
    ["0 00 -0 0x0 0b0 0o0", 0],
    ["0400 0o400 256 0x100 0b1_0000_0000 2_56 +256", 256],
    ["-010 -8 -0x8 -0b1000", -8],
    ["1_000 1000 1e3 1.0e+3 1000. 01000.", 1000],
    ["080", 80],
    [".5 +.5 0.5 5e-1 0_0.5", 0.5],
    ["9223372036854775808", 2 ** 63],
    ["99999999999999999999", 1e20],
    [".inf +.Inf", Infinity],
    ["-.INF", -Infinity],
    [".nan .NaN", NaN],
    ["'yes'", "yes"],
    ['"0400"', "0400"],
    ["!!str yes", "yes"],
    ["!!binary eWVz", "yes"],
    ["!!bool 'yes'", true],
    ["!!float 3", 3],
    ["!other 3", "3"],
    ...["tRUE yEs 0x 0xg 0b2 1e400 _1 1a . .5_0 190:20:30 12:30 2001-12-14 1.2.3 <<"]
      .flatMap((words) => words.split(" "))
      .map((word) => [word, word] as const),
  ];
  for (const [spellings, expected] of scalars) {
    const words = spellings.startsWith("!") ? [spellings] : spellings.split(" ");
    for (const word of words)
      test(`${word} is ${JSON.stringify(expected)}`, async () => {
        const [value] = await read(`a: ${word}\n`);
        const { a } = value as { readonly a: unknown };
        assert.deepEqual(a === 0 ? 0 : a, expected);
      });
  }

  const base = "b: &b {x: 1, y!: 1}\n";
  const documents: readonly (readonly [string, string, unknown])[] = [
    ["\\' in double quotes", "a: \"it\\'s \\\\'\\n\"\n", { a: "it's \\'\n" }],
    ["several of them, in keys and over lines", '"\\\'": "\\\' \n  \\\'"\n', { "'": "' '" }],
    ["keys that are no text", "yes: 1\n0x10: 2\n1.50: 3\n", { true: 1, 16: 2, 1.5: 3 }],
    ["a merge before a key", `${base}a: {<<: *b, x: 2}\n`, { b: { x: 1, "y!": 1 }, a: { x: 2, "y!": 1 } }],
    ["a merge of several: the first one counts", "a: {<<: [{x: 1}, {x: 2, z: 3}]}", { a: { x: 1, z: 3 } }],
    ["an anchor of a merge", "a: {<<: &x {b: 1}}\nc: *x\n", { a: { b: 1 }, c: { b: 1 } }],
    ["a quoted <<", 'a: {"<<": b}', { a: { "<<": "b" } }],
    ["an anchor that is set again", "[&a 1, *a, &a 2, *a]", [1, 1, 2, 2]],
    ["__proto__ as a key", "__proto__: {a: 1}", JSON.parse('{"__proto__": {"a": 1}}')],
  ];
  for (const [what, text, expected] of documents)
    test(what, async () => {
      assert.deepEqual(await read(text), [expected, []]);
    });

  for (const [what, text, expected] of [
    ["of a key given twice, the last value", "a: {k: 1, k: 2}\n", { a: { k: 2 } }],
    ["of a merge behind a key, the merged value", "a: {k: 1, <<: {k: 2}}\n", { a: { k: 2 } }],
  ] as const)
    test(`${what}, and says so`, async () => {
      const [value, problems] = await read(`# comment\n${text}`);
      assert.deepEqual(value, expected);
      const places = problems.map(({ path, line, kind }) => [path, line, kind]);
      assert.deepEqual(places, [["a.k", 2, "passedOver"]]);
    });
});
