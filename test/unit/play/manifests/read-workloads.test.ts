import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { makeJobPod } from "../../../../src/play/manifests/make-pod.js";
import { summarizeNotices } from "../../../../src/play/manifests/notices.js";
import {
  type ReadOptions,
  readRemoval,
  readWorkloads,
} from "../../../../src/play/manifests/read-manifests.js";
import type { Workloads } from "../../../../src/play/manifests/workloads.js";

const container = "{name: c, image: x}";

function workload(kind: string, spec = "", pod = `containers: [${container}]`, name = "web"): string {
  const batch = kind === "Job" ? "batch/v1" : "apps/v1";
  const selector = kind === "Job" ? "" : "selector: {matchLabels: {app: web}}, ";
  const template = `template: {metadata: {labels: {app: web}}, spec: {${pod}}}`;
  return `apiVersion: ${batch}\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: {${selector}${spec}${template}}\n`;
}

const read = (text: string, options?: ReadOptions): Promise<Workloads> =>
  readWorkloads([{ name: "f.yaml", text }], options);
const pod = (spec: string, name = "web"): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\nspec: {${spec}}\n`;
const object = (kind: string, rest: string, name = "a"): string =>
  `---\napiVersion: v1\nkind: ${kind}\nmetadata: {name: ${name}}\n${rest}\n`;

describe("readWorkloads() makes pods", () => {
  test("of a Deployment, with names from 0 and the workload as owner", async () => {
    const { pods } = await read(workload("Deployment", "replicas: 2, "));
    assert.deepEqual(
      pods.map(({ key, owner }) => [key.name, key.namespace, owner]),
      ["web-0", "web-1"].map((name) => [name, "default", { kind: "Deployment", name: "web" }]),
    );
    assert.deepEqual(pods[0]?.pod.metadata.labels, { app: "web" });
  });

  test("of a Deployment, with no more pods beside them (maxSurge) than it has", async () => {
    const { pods } = await read(
      workload("Deployment", "replicas: 2, strategy: {rollingUpdate: {maxSurge: 1000}}, "),
    );
    const names = pods[0]?.update?.surge.map(({ key }) => key.name);
    assert.deepEqual(names, ["web-surge-0", "web-surge-1"]);
  });

  test("of a Deployment, with none beside that of a claim for one pod", async () => {
    const using = `volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [${container}]`;
    for (const [mode, without] of [
      ["ReadWriteOnce", undefined],
      ["ReadWriteOncePod", "claim data is for one pod (ReadWriteOncePod)"],
    ] as const) {
      const spec = `spec: {accessModes: [${mode}], resources: {requests: {storage: 1Ki}}}`;
      const claim = object("PersistentVolumeClaim", spec, "data");
      const { update } = (await read(workload("Deployment", "", using) + claim)).pods[0] ?? {};
      const found = [update?.surge.length, update?.withoutSurge];
      assert.deepEqual(found, [without === undefined ? 1 : 0, without]);
    }
  });

  test("in the number of --replicas, by name before all, and none for 0", async () => {
    const text = `${workload("Deployment")}---\n${workload("ReplicaSet", "", undefined, "b")}`;
    const counts = { all: 0, byName: new Map([["b", 3]]) };
    const names = (await read(text, { replicas: counts })).pods.map(({ key }) => key.name);
    assert.deepEqual(names, ["b-0", "b-1", "b-2"]);
    const unknown = { byName: new Map([["c", 1]]) };
    await assert.rejects(read(text, { replicas: unknown }), /--replicas c=N: no workl/);
  });

  test("of a StatefulSet in order, with host names, ordinals and claims of their own", async () => {
    const claims =
      "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Ki}}}}], ";
    const mounting = "containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]";
    const spec = `replicas: 2, serviceName: db, ordinals: {start: 5}, ${claims}`;
    const { pods, claims: made } = await read(workload("StatefulSet", spec, mounting));
    const texts = pods.map(
      ({ key, startsAfter, pod: { spec } }) =>
        `${key.name} after ${startsAfter}: ${spec.hostname}.${spec.subdomain}`,
    );
    assert.deepEqual(texts, ["web-5 after undefined: web-5.db", "web-6 after web-5: web-6.db"]);
    assert.deepEqual(pods[1]?.pod.spec.volumes, [
      { name: "data", persistentVolumeClaim: { claimName: "data-web-6" } },
    ]);
    const claimed = made.map(({ name, requestBytes }) => `${name} ${requestBytes}`);
    assert.deepEqual(claimed, ["data-web-5 1024", "data-web-6 1024"]);
  });

  test("of one workload only as far as the ports of the host go", async () => {
    const wanting = "containers: [{name: c, image: x, ports: [{containerPort: 1, hostPort: 80}]}]";
    const { pods, notices } = await read(workload("Deployment", "replicas: 3, ", wanting));
    assert.equal(pods.length, 1);
    assert.match(notices[0]?.reason ?? "", /1 of 3 pods can be made: every one wants port 80\/TCP/);
    const two = `${pod(wanting, "a")}---\n${pod(wanting, "b")}`;
    await assert.rejects(read(two), /port 80\/TCP of this host is wanted by the pod default\/a, too/);
  });

  test("of a Job, by index with environment and host name", async () => {
    const spec = "completions: 2, completionMode: Indexed, ";
    const { jobs, pods } = await read(
      workload("Job", spec, `restartPolicy: Never, hostname: fixed, containers: [${container}]`),
    );
    const [job] = jobs;
    assert.ok(job);
    assert.equal(pods.length, 0);
    const made = makeJobPod(job, { index: 1, attempt: 0 });
    assert.equal(made.key.name, "web-1");
    assert.equal(made.pod.spec.hostname, "web-1");
    assert.deepEqual(made.pod.spec.containers[0]?.env, [{ name: "JOB_COMPLETION_INDEX", value: "1" }]);
    assert.equal(job.backoffLimit, 6);
  });

  test("of a CronJob once, or by its schedule", async () => {
    const job = `jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [${container}]}}}}`;
    const text = `apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: web}\nspec: {schedule: "0 1 * * *", ${job}}`;
    assert.equal((await read(text)).jobs.length, 1);
    const { jobs, cronJobs } = await read(text, { schedule: true });
    assert.deepEqual([jobs.length, cronJobs[0]?.schedule], [0, "0 1 * * *"]);
    await assert.rejects(read(text.replace("0 1", "0 61")), /spec\.schedule: the hour must be/);
  });
});

describe("readWorkloads() follows references", () => {
  const env = (from: string): string =>
    `containers: [{name: c, image: x, env: [{name: A, valueFrom: {${from}}}]}]`;

  test("to ConfigMaps and Secrets, decoded", async () => {
    const text =
      pod(
        `${env("configMapKeyRef: {name: a, key: k}")}, volumes: [{name: v, secret: {secretName: a}}], imagePullSecrets: [{name: b}]`,
      ) +
      object("ConfigMap", "data: {k: v}\nbinaryData: {b: AAE=}") +
      object("Secret", "data: {k: dg==, l: dg==}\nstringData: {k: w}") +
      object("Secret", "type: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: e30=}", "b");
    const { objects } = (await read(text)).pods[0] ?? assert.fail();
    assert.deepEqual(objects.configMaps.get("a"), { k: Buffer.from("v"), b: Buffer.from([0, 1]) });
    assert.deepEqual(objects.secrets.get("a")?.data, { k: Buffer.from("w"), l: Buffer.from("v") });
    assert.equal(objects.secrets.get("b")?.type, "kubernetes.io/dockerconfigjson");
  });

  const claim = "volumes: [{name: v, persistentVolumeClaim: {claimName: d}}]";
  const missing: readonly (readonly [string, string, RegExp?])[] = [
    ["a ConfigMap", env("configMapKeyRef: {name: a, key: k}"), /configMapKeyRef: ConfigMap "a" is in none/],
    ["an optional one", env("configMapKeyRef: {name: a, key: k, optional: true}")],
    ["a claim", `containers: [${container}], ${claim}`, /PersistentVolumeClaim "d" is in none of the files/],
    ["a Secret for pulls", `containers: [${container}], imagePullSecrets: [{name: b}]`],
  ];
  for (const [what, spec, expected] of missing)
    test(`and ${expected === undefined ? "does without" : "reports"} ${what} that is missing`, async () => {
      if (expected === undefined) assert.equal((await read(pod(spec))).pods.length, 1);
      else await assert.rejects(read(pod(spec)), expected);
    });

  test("and reports a key that is missing, and for a variable one of binaryData", async () => {
    const text = pod(env("configMapKeyRef: {name: a, key: k}"));
    const configMap = (data: string): string => object("ConfigMap", data);
    await assert.rejects(read(text + configMap("data: {}")), /ConfigMap "a" has no key "k"/);
    const binary = configMap("binaryData: {k: dg==}");
    await assert.rejects(
      read(text + binary),
      /env\[0\].*ConfigMap "a" has "k" in binaryData, which no variable can/,
    );
    const from = "containers: [{name: c, image: x, envFrom: [{configMapRef: {name: a}}]}]";
    const { pods } = await read(pod(from) + binary);
    assert.deepEqual(pods[0]?.objects.binaryKeys?.get("a"), ["k"]);
  });

  test("and stands in for what only an API server has, with one line, unless a file has it", async () => {
    const volume =
      "volumes: [{name: kube-api-access-x, projected: {sources: [" +
      "{serviceAccountToken: {path: token, expirationSeconds: 3607}}, " +
      "{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}, " +
      "{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}]";
    const text = pod(`containers: [${container}], ${volume}`);
    const { pods, notices } = await read(text);
    const said = String(pods[0]?.objects.configMaps.get("kube-root-ca.crt")?.["ca.crt"]);
    assert.match(said, /^# .* no API server/);
    assert.deepEqual(summarizeNotices(notices), [
      "passed over in Pod web: spec.volumes[].projected.sources[].serviceAccountToken, " +
        "spec.volumes[].projected.sources[].configMap: the file stands for that of an API server, which play does not have",
    ]);
    const own = await read(text + object("ConfigMap", "data: {ca.crt: own}", "kube-root-ca.crt"));
    assert.equal(String(own.pods[0]?.objects.configMaps.get("kube-root-ca.crt")?.["ca.crt"]), "own");
    assert.equal(own.notices.length, 1);
    await assert.rejects(
      read(text.replace("3607", "599")),
      /expirationSeconds: must be a whole number from 600/,
    );
  });

  test("and gives a pod the imagePullSecrets of its service account", async () => {
    const text =
      pod(`serviceAccountName: a, containers: [${container}]`) +
      object("ServiceAccount", "imagePullSecrets: [{name: s}]") +
      object("Secret", "data: {}", "s");
    const { pods } = await read(text);
    assert.deepEqual(pods[0]?.pod.spec.imagePullSecrets, [{ name: "s" }]);
    assert.ok(pods[0].objects.secrets.has("s"));
  });
});

describe("readWorkloads() refuses", () => {
  const c = (fields: string): string => pod(`containers: [{name: c, image: x, ${fields}}]`);
  const exec = "exec: {command: [a]}";
  const nodePort = "spec: {type: NodePort, ports: [{port: 1, nodePort: 30000}]}";
  const withPolicy = (policy: string): string => `restartPolicy: ${policy}, containers: [${container}]`;
  const never = workload("Deployment", "", withPolicy("Never"));
  const cases: readonly (readonly [string, string, RegExp])[] = [
    [
      "a selector of other pods",
      workload("Deployment").replace("matchLabels: {app: web}", "matchLabels: {app: b}"),
      /line 4: spec\.selector: does not match/,
    ],
    ["a Deployment that does not restart", never, /must be Always/],
    ["a Job that always restarts", workload("Job"), /must be Never or OnFailure/],
    ...(
      [
        ["{action: FailIndex, onExitCodes: {operator: In, values: [1]}}", /\[0\]\.action: FailIndex needs/],
        ["{action: Ignore}", /rules\[0\]: must have either onExitCodes or onPodConditions/],
        ["{action: Count, onExitCodes: {operator: In, values: [0]}}", /values: must not have 0/],
        ["{action: Count, onExitCodes: {operator: NotIn, values: [2, 1]}}", /values: must be one or more/],
        ["{action: Count, onExitCodes: {containerName: d, operator: In, values: [1]}}", /"d" is no cont/],
      ] as const
    ).map(
      ([rule, expected]) =>
        [
          `the rule ${rule} of a podFailurePolicy`,
          workload("Job", `podFailurePolicy: {rules: [${rule}]}, `, withPolicy("Never")),
          expected,
        ] as const,
    ),
    [
      "a podFailurePolicy with restarts",
      workload("Job", "podFailurePolicy: {rules: []}, ", withPolicy("OnFailure")),
      /podFailurePolicy: needs restartPolicy: Never/,
    ],
    [
      "two workloads with one name of pods",
      `${workload("Deployment")}---\n${workload("DaemonSet")}`,
      /the pod default\/web-0 is also made/,
    ],
    ["Helm templates", "a: {{ .Values.a }}\n", /line 1: has a template placeholder/],
    ["an alias that contains itself", "apiVersion: &a [*a]\n", /f\.yaml/],
    ["a probe without a handler", c("livenessProbe: {}"), /livenessProbe: must have one of exec/],
    [
      "a probe of an init container",
      pod(`initContainers: [{name: i, image: x, livenessProbe: {${exec}}}], containers: [${container}]`),
      /initContainers\[0\]\.livenessProbe: is only for init containers with/,
    ],
    ["a successThreshold", c(`livenessProbe: {successThreshold: 2, ${exec}}`), /must be 1 for a live/],
    [
      "rules of restarts without a policy",
      c("restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]"),
      /containers\[0\]\.restartPolicy: is missing/,
    ],
    ["a Secret that is no base64", object("Secret", "data: {k: hunter2!}"), /data\.k: must be base64$/],
    [
      "a nodePort of two services",
      object("Service", nodePort) + object("Service", nodePort, "b"),
      /nodePort 30000\/TCP is that of the service a/,
    ],
  ];
  for (const [what, text, expected] of cases)
    test(what, async () => {
      await assert.rejects(read(text), expected);
    });

  test("what is passed over, when strict", async () => {
    const text = `${pod(`nodeName: n, containers: [${container}]`)}---\napiVersion: networking.k8s.io/v1\nkind: Ingress\n`;
    const { notices } = await read(text);
    assert.deepEqual(summarizeNotices(notices).length, 2);
    const found = summarizeNotices(notices)[0];
    assert.equal(found, "passed over in Pod web: spec.nodeName: has no meaning on a single node");
    await assert.rejects(read(text, { strict: true }), /2 problems[^]*spec\.nodeName: passed over: has no/);
  });

  test("volumes of storage systems, unless they may be local", async () => {
    const text = pod(`containers: [${container}], volumes: [{name: v, nfs: {server: s, path: /}}]`);
    await assert.rejects(read(text), /volumes\[0\]\.nfs: not honoured: .*--local-volumes/);
    const { pods, claims } = await read(text, { localVolumes: true });
    assert.equal(pods[0]?.pod.spec.volumes?.[0]?.persistentVolumeClaim?.claimName, claims[0]?.name);
  });
});

test("the numbers of an update strategy are rounded as in Kubernetes, with its defaults", async () => {
  const rolling = (fields: string): string => `strategy: {rollingUpdate: {${fields}}}, `;
  const update = (fields: string): string => `updateStrategy: {rollingUpdate: {${fields}}}, `;
  const onPort = "containers: [{name: c, image: x, ports: [{containerPort: 80, hostPort: 80}]}]";
  for (const [kind, spec, maxUnavailable, surge, more] of [
    ["Deployment", "", 0, 1],
    ["Deployment", "replicas: 10, ", 2, 3],
    ["Deployment", `replicas: 10, ${rolling("maxSurge: 0, maxUnavailable: 30%")}`, 3, 0],
    ["Deployment", `replicas: 10, ${rolling("maxSurge: 11%, maxUnavailable: 0")}`, 0, 2],
    ["Deployment", "replicas: 3, strategy: {type: Recreate}, ", 0, 0],
    ["Deployment", "replicas: 3, ", 0, 0, onPort],
    ["StatefulSet", "replicas: 10, ", 1, 0],
    ["StatefulSet", `replicas: 10, ${update("maxUnavailable: 25%")}`, 2, 0],
    ["StatefulSet", `replicas: 2, ${update("maxUnavailable: 25%")}`, 1, 0],
    ["DaemonSet", "", 1, 0],
    ["DaemonSet", update("maxSurge: 50%, maxUnavailable: 0"), 0, 1],
  ] as const) {
    const { pods, notices } = await read(workload(kind, spec, more));
    const { update: is } = pods[0] ?? {};
    assert.deepEqual([is?.maxUnavailable, is?.surge.length], [maxUnavailable, surge], `${kind} ${spec}`);
    const names = Array.from({ length: surge }, (_, index) => `web-surge-${index}`);
    const found = is?.surge.map(({ key }) => key.name);
    assert.deepEqual(found, names);
    const seen = notices.filter(({ path }) => path.includes("trategy"));
    assert.deepEqual(seen, []);
  }
  for (const [spec, says] of [
    [rolling("maxSurge: 0, maxUnavailable: 0%"), "maxUnavailable: must not be 0 with maxSurge 0"],
    [rolling("maxSurge: half"), 'maxSurge: must be a whole number, or a percentage such as "25%"'],
    ["strategy: {type: OnDelete}, ", 'strategy.type: must be one of "RollingUpdate", "Recreate"'],
  ] as const)
    await assert.rejects(read(workload("Deployment", spec)), ({ message }: Error) => message.includes(says));
});

test("readRemoval() asks for no more than kinds and names", async () => {
  const text = `${pod("madeUp: 1, madeUp: 2")}---\n${workload("Deployment").replace("selector", "madeUp")}${object("Service", "")}`;
  const removal = await readRemoval([{ name: "f.yaml", text }]);
  assert.deepEqual(removal.pods[0]?.key.name, "web");
  assert.deepEqual(removal.owners[0]?.kind, "Deployment");
  assert.deepEqual(removal.services, [{ namespace: "default", name: "a" }]);
  const { pods, owners } = await readRemoval([{ name: "f.yaml", text: object("ConfigMap", "") }]);
  assert.deepEqual([pods, owners], [[], []]);
  await assert.rejects(readRemoval([{ name: "f.yaml", text: "---\n" }]), /no object in f\.yaml/);
});

test("the namespace of a file is that of the objects without one; another one is refused", async () => {
  const text = `${pod(`containers: [${container}]`)}---\n${workload("Deployment")}`;
  const { pods } = await readWorkloads([{ name: "f.yaml", text, namespace: "shop" }]);
  assert.deepEqual([...new Set(pods.map(({ key }) => key.namespace))], ["shop"]);
  const own = pod(`containers: [${container}]`).replace("name: web", "name: web, namespace: own");
  await assert.rejects(
    readWorkloads([{ name: "f.yaml", text: own, namespace: "shop" }]),
    /f\.yaml, line \d+: metadata\.namespace: is "own", and --namespace says "shop"/,
  );
});
