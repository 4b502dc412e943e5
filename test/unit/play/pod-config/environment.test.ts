import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { containerEnvironment } from "../../../../src/play/pod-config/environment.js";
import type { PodObjects } from "../../../../src/play/manifests/read-manifests.js";
import { makeFixture, uncheckedPod } from "../fake-cri.js";

const { node } = makeFixture().deps;
const bytes = (data: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value)]));
const objects: PodObjects = {
  configMaps: new Map([
    ["web", bytes({ HOST: "db", "a.b-c": "dotted", REF: "$(HOST)", BIN: "text" })],
    ["empty", {}],
  ]),
  binaryKeys: new Map([["web", ["BIN"]]]),
  secrets: new Map([
    ["key", { type: "Opaque", data: { TOKEN: Buffer.from("t0k"), BLOB: Buffer.from([0xff, 0x00]) } }],
  ]),
};

async function environmentOf(
  container: string,
  options: {
    readonly podSpec?: string;
    readonly services?: ReadonlyMap<string, string>;
    readonly file?: string;
  } = {},
): Promise<Readonly<Record<string, string>>> {
  const metadata = "{name: web, namespace: shop, uid: u1, labels: {app: a}, annotations: {note: 'x \"y\"'}}";
  const text = `apiVersion: v1\nkind: Pod\nmetadata: ${metadata}\nspec:\n  ${options.podSpec ?? "restartPolicy: Never"}\n`;
  const read = await uncheckedPod(`${text}  containers: [{name: c, image: x, ${container}}]`);
  const manifest = { ...read, objects };
  const [first] = manifest.pod.spec.containers;
  assert.ok(first);
  const podIps = ["10.1.2.3", "fd00::3"];
  const input = { manifest, container: first, node, podIps };
  const services = options.services === undefined ? {} : { serviceEnvironment: options.services };
  const variableFiles = new Map([["v/e.env", options.file ?? ""]]);
  return Object.fromEntries(containerEnvironment({ ...input, ...services, variableFiles }));
}

test("values refer to the variables before them, not after, and the last entry of a name counts", async () => {
  const env = [
    "{name: LATE, value: $(HOST)}",
    "{name: HOST, value: db}",
    "{name: URL, value: http://$(HOST)/}",
    "{name: NONE}",
    "{name: HOST, value: $(HOST)2}",
  ];
  assert.deepEqual(await environmentOf(`env: [${env.join(", ")}]`), {
    ...{ LATE: "$(HOST)", HOST: "db2", URL: "http://db/", NONE: "" },
  });
});

test("envFrom takes all keys but those of binaryData, with the prefix, as they are; env replaces them", async () => {
  const from = "[{configMapRef: {name: web}}, {prefix: P_, configMapRef: {name: web}}]";
  assert.deepEqual(await environmentOf(`envFrom: ${from}, env: [{name: REF, value: $(P_HOST)!}]`), {
    ...{ HOST: "db", "a.b-c": "dotted", REF: "db!" },
    ...{ P_HOST: "db", "P_a.b-c": "dotted", P_REF: "$(HOST)" },
  });
});

test("variables of Services come last, can be referred to, and replace nothing", async () => {
  const services = new Map([
    ["DB_SERVICE_HOST", "10.0.0.9"],
    ["HOST", "service"],
  ]);
  const env = "env: [{name: HOST, value: own}, {name: URL, value: $(DB_SERVICE_HOST)}]";
  assert.deepEqual(await environmentOf(env, { services }), {
    ...{ HOST: "own", URL: "10.0.0.9", DB_SERVICE_HOST: "10.0.0.9" },
  });
});

test("spec.serviceAccountName is the name in the manifest, which needs no API server", async () => {
  const env = 'env: [{name: X, valueFrom: {fieldRef: {fieldPath: "spec.serviceAccountName"}}}]';
  for (const podSpec of ["serviceAccountName: builder", "serviceAccount: builder"])
    assert.deepEqual(await environmentOf(env, { podSpec }), { X: "builder" });
});

describe("valueFrom", () => {
  const field = (fieldPath: string) => `fieldRef: {fieldPath: "${fieldPath}"}`;
  const resource = (name: string, divisor = "0") =>
    `resourceFieldRef: {resource: ${name}, divisor: "${divisor}"}`;
  const cases: readonly (readonly [string, string])[] = [
    ["configMapKeyRef: {name: web, key: HOST}", "db"],
    ["secretKeyRef: {name: key, key: TOKEN}", "t0k"],
    [field("metadata.name"), "web"],
    [field("metadata.namespace"), "shop"],
    [field("metadata.uid"), "u1"],
    [field("metadata.labels['app']"), "a"],
    [field("metadata.labels['none']"), ""],
    [field("metadata.annotations['note']"), 'x "y"'],
    [field("spec.nodeName"), "node-1"],
    [field("spec.serviceAccountName"), "default"],
    [field("status.hostIP"), "192.0.2.7"],
    [field("status.hostIPs"), "192.0.2.7,2001:db8::7"],
    [field("status.podIP"), "10.1.2.3"],
    [field("status.podIPs"), "10.1.2.3,fd00::3"],
    [resource("limits.cpu"), "2"],
    [resource("limits.cpu", "1m"), "1500"],
    [resource("requests.cpu", "1m"), "1500"],
    [resource("requests.memory", "1Mi"), "64"],
    [resource("limits.memory"), "3900000000"],
    [resource("limits.ephemeral-storage", "1Gi"), "10"],
    [resource("requests.ephemeral-storage"), "0"],
  ];
  for (const [from, expected] of cases)
    test(`${from} is ${JSON.stringify(expected)}`, async () => {
      const resources = "resources: {limits: {cpu: 1500m}, requests: {memory: 64Mi}}";
      const environment = await environmentOf(`${resources}, env: [{name: X, valueFrom: {${from}}}]`);
      assert.deepEqual(environment, { X: expected });
    });

  test("an address of a pod on the host network is the node's", async () => {
    const environment = await environmentOf(`env: [{name: X, valueFrom: {${field("status.podIP")}}}]`, {
      podSpec: "hostNetwork: true",
    });
    assert.deepEqual(environment, { X: "192.0.2.7" });
  });
});

describe("what is missing", () => {
  const optional: readonly string[] = [
    "envFrom: [{configMapRef: {name: no, optional: true}}, {secretRef: {name: no, optional: true}}]",
    "env: [{name: X, valueFrom: {configMapKeyRef: {name: no, key: k, optional: true}}}]",
    "env: [{name: X, valueFrom: {secretKeyRef: {name: key, key: k, optional: true}}}]",
  ];
  for (const container of optional)
    test(`is left out when it is optional: ${container}`, async () => {
      assert.deepEqual(await environmentOf(container), {});
    });
  const errors: readonly (readonly [string, RegExp])[] = [
    ["envFrom: [{configMapRef: {name: no}}]", /ConfigMap "no": it is in none of the files/],
    ["env: [{name: X, valueFrom: {secretKeyRef: {name: no, key: k}}}]", /Secret "no": it is in none/],
    ["env: [{name: X, valueFrom: {secretKeyRef: {name: key, key: k}}}]", /"X": Secret "key" has no key "k"/],
    ["env: [{name: X, valueFrom: {secretKeyRef: {name: key, key: constructor}}}]", /has no key/],
    ["env: [{name: X, valueFrom: {configMapKeyRef: {name: web, key: BIN}}}]", /has no key "BIN"/],
    ["env: [{name: X, valueFrom: {fieldRef: {fieldPath: status.phase}}}]", /no such field/],
    ["env: [{name: X, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}]", /no such resource/],
  ];
  for (const [container, message] of errors)
    test(`is an error: ${container}`, async () => {
      await assert.rejects(environmentOf(container), message);
    });

  test("a binary value is an error that does not show it", async () => {
    const from = "secretKeyRef: {name: key, key: BLOB}";
    await assert.rejects(environmentOf(`env: [{name: X, valueFrom: {${from}}}]`), {
      message: 'set variable "X": the value is binary: mount it as a volume instead',
    });
  });
});

describe("fileKeyRef", () => {
  const from = (key: string, rest = ""): string =>
    `env: [{name: X, valueFrom: {fileKeyRef: {volumeName: v, path: ./e.env, key: ${key}${rest}}}}]`;
  /** The file, and the value of the key K, or the error. */
  const files: readonly (readonly [string, string | RegExp])[] = [
    ["K='v'", "v"],
    ["# comment\n\n  A='a' # more\n\tK='$(A) \\n \"# '  # end\nbroken", '$(A) \\n "# '],
    ["K='one\r\ntwo'\r\n", "one\ntwo"],
    ["A='K=1\nK='\nK='2'", "2"],
    ["K='1'\nK='2'", "1"],
    ["A= 'x'\nK='1'", "1"],
    ["export K='1'", /"v\/e.env" has no key "K"/],
    ["K= '1'", /has no key "K"/],
    ["K=''", /has no key "K"/],
    ["A='1'", /has no key "K"/],
    ["A='1'\nK", /set variable "X": read "v\/e.env": line 2: it has no "="/],
    ["K='1' x", /line 1: something follows the value/],
    ["K ='1'", /line 1: it has white space before "="/],
    ["='1'", /line 1: it has no name/],
    ["K=1", /line 1: the value must be in single quotes/],
    ["A='1'\nK='1\n2", /line 2: the quote has no end/],
  ];
  for (const [file, expected] of files)
    test(`of ${JSON.stringify(file)}`, async () => {
      const made = environmentOf(from("K"), { file });
      if (typeof expected === "string") assert.deepEqual(await made, { X: expected });
      else await assert.rejects(made, expected);
    });

  test("leaves a variable out when its key is missing and optional", async () => {
    assert.deepEqual(await environmentOf(from("K", ", optional: true"), { file: "A='1'" }), {});
  });
});
