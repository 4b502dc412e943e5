import assert from "node:assert/strict";
import { test } from "node:test";
import { type ObservedPod, byAge } from "../../../../src/play/pod-rules/observed-pod.js";
import { podActions } from "../../../../src/play/pod-rules/pod-actions.js";
import type { ProbeKind, ProbeResult } from "../../../../src/play/pod-rules/probe-results.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { observedPod, podWith } from "../fake-cri.js";

const two = "  containers: [{name: a, image: x}, {name: b, image: x}]";
const init = `  initContainers: [{name: i1, image: x}, {name: i2, image: x}]\n${two}`;
const sidecar = `  initContainers: [{name: s, image: x, restartPolicy: Always}, {name: i, image: x}]\n${two}`;
const probe = "{exec: {command: ['true']}}";
const gated = `  initContainers: [{name: s, image: x, restartPolicy: Always, startupProbe: ${probe}}]\n${two}`;
const never = "  restartPolicy: Never\n";
const onFailure = "  restartPolicy: OnFailure\n";
const live = `  initContainers: [{name: s, image: x, restartPolicy: Always, livenessProbe: ${probe}}]\n${two}`;
const ephemeral = `  ephemeralContainers: [{name: e, image: x}]\n${init}`;
const withFields = (spec: string, name: string, fields: string): string =>
  spec.replace(`name: ${name}, image: x`, `name: ${name}, image: x, ${fields}`);
const ofA = (spec: string, fields: string): string => withFields(spec, "a", fields);
const ofI = (spec: string, fields: string): string => withFields(spec, "i1", fields);
const rules = (action: string, operator: string): string =>
  `restartPolicy: Never, restartPolicyRules: [{action: ${action}, exitCodes: {operator: ${operator}}}]`;
const all = rules("RestartAllContainers", "In, values: [42]");
const change = (spec: string, name: string): string =>
  spec.replace(`name: ${name}, image: x`, `name: ${name}, image: z`);

/** As `kill s; new sandbox 1; start i1 a`, empty for nothing. */
function actionsOf(
  manifest: Manifest,
  observed: ObservedPod,
  results: Readonly<Record<string, ProbeResult>> = {},
): string {
  const get = (kind: ProbeKind, id: string): ProbeResult | undefined =>
    results[`${kind} ${id.replace("id-", "")}`];
  const { killPod, createSandbox, attempt, kill, reset, start } = podActions(manifest, observed, { get });
  const starts = start.map(({ container }) => container.name).join(" ");
  return [
    killPod && observed.sandboxes.length > 0 ? "kill pod" : "",
    kill.length === 0 ? "" : `kill ${kill.map(({ container }) => container.name).join(" ")}`,
    reset.length === 0 ? "" : `reset ${reset.map(({ name }) => name).join(" ")}`,
    createSandbox ? `new sandbox ${attempt}` : "",
    starts === "" ? "" : `start ${starts}`,
  ]
    .filter((part) => part !== "")
    .join("; ");
}

interface Extra {
  /** Results of probes, such as `liveness a`. */
  readonly results?: Readonly<Record<string, ProbeResult>>;
  /** What the containers were made of; the spec unless given. */
  readonly before?: string;
  /** Which sandboxes are ready, the newest first. */
  readonly ready?: readonly boolean[];
  readonly lacksIp?: boolean;
}

/** Spec, containers, expected actions. */
const cases: readonly (readonly [string, string, string, Extra?])[] = [
  [two, "", "start a b"],
  [two, "a=running b=running", ""],
  [two, "a=0 b=running", "start a"],
  [two, "a=created b=running", "start a"],
  [two, "a=unknown b=running", "kill a; start a"],
  [never + two, "a=1 b=running", ""],
  [never + two, "a=1 b=0", "kill pod"],
  [onFailure + two, "a=1 b=0", "start a"],
  [onFailure + two, "a=0 b=0", "kill pod"],
  [two, "a=0 b=0", "start a b"],
  [init, "", "start i1"],
  [init, "i1=running", ""],
  [init, "i1=created", "start i1"],
  [init, "i1=0", "start i2"],
  [init, "i2=0", "start a b"],
  [init, "i1=3", "start i1"],
  [init, "i1=unknown", "kill i1; start i1"],
  [never + init, "i1=3", "kill pod"],
  [never + init, "i1=unknown", "kill pod"],
  [init, "i1=0 i2=0", "start a b"],
  [init, "a=running", "start b"],
  [init, "a=1 b=running", "start a"],
  [sidecar, "", "start s"],
  [sidecar, "s=running", "start i"],
  [sidecar, "s=running i=running", ""],
  [sidecar, "s=1 i=running", "start s"],
  [sidecar, "s=running i=0", "start a b"],
  [sidecar, "s=0 i=0 a=running b=running", "start s"],
  [sidecar, "a=running b=running", "start s"],
  [never + sidecar, "s=1 i=0 a=running b=running", "start s"],
  [never + sidecar, "s=running i=0 a=0 b=0", "kill pod"],
  [never + sidecar, "s=1 i=0 a=0 b=0", "kill pod"],
  [sidecar, "s=unknown i=0 a=running b=running", "kill s; start s"],
  [gated, "s=running", ""],
  [two, "a=running b=running", "kill a; start a", { results: { "liveness a": "failure" } }],
  [two, "a=running b=running", "kill b; start b", { results: { "startup b": "failure" } }],
  [two, "a=running b=running", "", { results: { "readiness a": "failure" } }],
  [never + two, "a=running b=running", "kill a", { results: { "liveness a": "failure" } }],
  [gated, "s=running", "", { results: { "startup s": "unknown" } }],
  [gated, "s=running", "kill s; start s", { results: { "startup s": "failure" } }],
  [gated, "s=running", "start a b", { results: { "startup s": "success" } }],
  [live, "s=running a=running b=running", "kill s; start s", { results: { "liveness s": "failure" } }],
  [never + change(two, "b"), "a=running b=running", "kill b; start b", { before: never + two }],
  [change(sidecar, "s"), "s=running i=0 a=running b=running", "kill s; start s", { before: sidecar }],
  [ephemeral, "i1=running", "start e"],
  [ephemeral, "e=1 i1=running", ""],
  // restartPolicy and restartPolicyRules of containers.
  [ofA(never + two, "restartPolicy: OnFailure"), "a=1 b=0", "start a"],
  [ofA(never + two, "restartPolicy: OnFailure"), "a=0 b=0", "kill pod"],
  [ofA(two, "restartPolicy: Never"), "a=0 b=running", ""],
  [
    ofA(two, "restartPolicy: Never"),
    "a=running b=running",
    "kill a",
    { results: { "liveness a": "failure" } },
  ],
  [
    ofA(never + two, "restartPolicy: Always"),
    "a=running b=running",
    "kill a; start a",
    { results: { "liveness a": "failure" } },
  ],
  [ofA(never + two, rules("Restart", "In, values: [42]")), "a=42 b=0", "start a"],
  [ofA(never + two, rules("Restart", "In, values: [42]")), "a=1 b=0", "kill pod"],
  [ofA(never + two, rules("Restart", "NotIn, values: [0]")), "a=1 b=0", "start a"],
  [ofA(never + two, rules("Restart", "In, values: [0]")), "a=0 b=0", "start a"],
  [ofI(never + init, rules("Restart", "In, values: [3]")), "i1=3", "start i1"],
  [ofI(never + init, rules("Restart", "In, values: [3]")), "i1=4", "kill pod"],
  [ofI(init, "restartPolicy: Never"), "i1=4", "kill pod"],
  [ofI(init, "restartPolicy: Never"), "i1=unknown", "kill pod"],
  [ofA(never + init, all), "i1=0 i2=0 a=42 b=running", "reset b i1 i2 a"],
  [ofA(never + init, all), "i2=0 a=42", "reset i2 a"],
  [ofA(never + init, all), "i1=0 i2=0 a=1 b=0", "kill pod"],
  [ofI(never + init, all), "i1=42", "reset i1"],
  [ofA(two, all), "a=42 b=0", "kill pod; new sandbox 1; start a b", { ready: [false] }],
  [
    ofA(onFailure + two, "restartPolicy: Always"),
    "a=0 b=0",
    "kill pod; new sandbox 1; start a",
    { ready: [false] },
  ],
  [two, "", "new sandbox 0; start a b", { ready: [] }],
  [init, "", "new sandbox 0; start i1", { ready: [] }],
  [two, "a=0 b=0", "kill pod; new sandbox 1; start a b", { ready: [false] }],
  [init, "i1=0 i2=0 a=0 b=0", "kill pod; new sandbox 1; start i1", { ready: [false] }],
  [two, "a=running b=running", "kill pod; new sandbox 1; start a b", { ready: [true, true] }],
  [two, "a=running b=running", "kill pod; new sandbox 1; start a b", { ready: [false, true] }],
  [two, "a=running b=running", "", { ready: [true, false] }],
  [never + two, "a=0 b=1", "kill pod", { ready: [false] }],
  [never + two, "", "kill pod; new sandbox 1; start a b", { ready: [false] }],
  [onFailure + two, "a=0 b=1", "kill pod; new sandbox 1; start b", { ready: [false] }],
  [onFailure + two, "a=0 b=0", "kill pod", { ready: [false] }],
  [two, "a=running b=running", "kill pod; new sandbox 1; start a b", { lacksIp: true }],
  [`  hostNetwork: true\n${two}`, "a=running b=running", "", { lacksIp: true }],
];
for (const [spec, there, expected, extra = {}] of cases) {
  const name = `${spec.trim().split("\n").slice(0, 2).join(" ").slice(0, 60)}… with ${there || "no container"}`;
  const more = Object.keys(extra).length === 0 ? "" : ` and ${JSON.stringify(extra)}`;
  test(`podActions() of ${name}${more}: ${expected || "nothing"}`, async () => {
    const { results = {}, before = spec, ready = [true], lacksIp = false } = extra;
    const observed = observedPod(await podWith(before), there);
    const sandboxes = ready.map((isReady, index) => ({
      ...observed.sandboxes[0]!,
      id: index === 0 ? "s" : `s${index}`,
      isReady,
    }));
    assert.equal(actionsOf(await podWith(spec), { ...observed, sandboxes, lacksIp }, results), expected);
  });
}

test("byAge() puts the highest attempt first, also when the clock was set back before it", () => {
  const attempts = [
    [1, 9n],
    [2, 3n],
    [0, 5n],
    [2, 4n],
  ] as const;
  const sorted = attempts.map(([attempt, createdAt]) => ({ attempt, createdAt })).sort(byAge);
  const createdAts = sorted.map(({ createdAt }) => createdAt);
  assert.deepEqual(createdAts, [4n, 3n, 9n, 5n]);
});
