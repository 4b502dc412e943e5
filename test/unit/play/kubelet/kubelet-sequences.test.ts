/** The calls of a real kubelet (1.36.2) for the same manifests; docs/play/play-kubelet.md has what differs. */
import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { basename } from "node:path";
import { test } from "node:test";
import { type Manifest, readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { type Fixture, makeFixture } from "../fake-cri.js";

const directory = new URL("../../../golden/kubelet-sequences/", import.meta.url);
const recorded = JSON.parse(await readFile(new URL("sequences.json", directory), "utf8")) as Readonly<
  Record<string, readonly string[]>
>;
const image = "registry.k8s.io/e2e-test-images/busybox:1.29-2";
const changedImage = "registry.k8s.io/e2e-test-images/busybox:other";
const { signal } = new AbortController();

/** What the containers and the handlers of a manifest do; nothing for those that just run. */
const scripts: Readonly<Record<string, (fixture: Fixture) => void>> = {
  "init-containers": ({ cri }) => cri.exits.set("one", 0).set("two", 0),
  sidecar: ({ cri }) => {
    cri.exits.set("before", 0);
    endAfterGrace(cri, ["main"]);
  },
  "sidecar-startup-probe": ({ cri }) => endAfterGrace(cri, ["main"]),
  "image-of-init": ({ cri }) => cri.exits.set("before", 0),
  "image-of-sidecar": ({ cri }) => endAfterGrace(cri, ["main"]),
  "sidecar-job": ({ cri, clock }) => clock.after(2000, () => cri.end("main", 0)),
  "on-failure-twice": ({ cri }) => cri.exitsInTurn.set("main", [1, 1, 0]),
  "never-fails": ({ cri }) => cri.exits.set("main", 1),
  "never-init-fails": ({ cri }) => cri.exits.set("init", 1),
  "init-fails-once": ({ cri }) => cri.exitsInTurn.set("init", [1, 0]),
  "exec-liveness-kill": ({ handlers }) => handlers.outcomes.set("main liveness", ["failure"]),
  "tcp-startup-kill": ({ handlers }) => handlers.outcomes.set("main startup", ["failure"]),
  "http-readiness": ({ handlers }) => handlers.outcomes.set("main readiness", ["failure"]),
  "post-start-fails": ({ handlers }) => handlers.failingHooks.add("main postStart"),
  "pre-stop": ({ handlers }) => handlers.hookMs.set("main preStop", 1000),
  "pre-stop-sleep-sidecar": ({ handlers, cri }) => {
    handlers.hookMs.set("main preStop", 1000);
    endAfterGrace(cri, ["main", "b"]);
  },
  "pull-missing": ({ cri }) => {
    cri.failOn = "pullImage registry.k8s.io/e2e-test-images/absent:1";
  },
  "command-missing": ({ cri }) => cri.failingStarts.add("main"),
  "one-ends": ({ cri, clock }) => {
    cri.exits.set("done", 0);
    clock.after(3000, () => cri.end("main", 0));
  },
};

/** As `sleep`, which ignores SIGTERM as process 1. */
function endAfterGrace(cri: Fixture["cri"], names: readonly string[]): void {
  for (const name of names) cri.ignoresSignals.add(name);
}

/** How often they are restarted depends on the time that the recording took. */
const endless: ReadonlySet<string> = new Set([
  "exec-liveness-kill",
  "tcp-startup-kill",
  "post-start-fails",
  "command-missing",
  "pull-missing",
]);

/** The pod, then the pod that was put in its place while it ran. */
async function manifestsOf(path: string): Promise<readonly [Manifest, ...Manifest[]]> {
  const texts = (await readFile(new URL(path, directory), "utf8")).split("\n---\n");
  const [manifest, ...later] = (
    await Promise.all(texts.map((text) => readWorkloads([{ name: path, text }])))
  ).flatMap(({ pods }) => pods);
  assert.ok(manifest);
  return [manifest, ...later];
}

const paths: string[] = [];
for (const below of ["manifests", "changes"])
  for (const file of (await readdir(new URL(below, directory))).sort()) paths.push(`${below}/${file}`);

for (const path of paths) {
  const name = basename(path, ".yaml");
  test(`play makes the kubelet's calls for ${name}`, async () => {
    const fixture = makeFixture();
    const { cri, clock, kubelet } = fixture;
    cri.images.set(image, {}).set(changedImage, {});
    const [manifest, ...later] = await manifestsOf(path);
    scripts[name]?.(fixture);
    kubelet.apply(manifest, { failFast: false });
    await clock.advance(45_000);
    for (const changed of later) {
      kubelet.apply(changed, { failFast: false });
      await clock.advance(45_000);
    }
    const removal = kubelet.remove(manifest.key, signal);
    await clock.advance(20_000);
    await removal;
    await kubelet[Symbol.asyncDispose]();

    const played = split(cri.calls.map(translate));
    const expected = split((recorded[name] ?? []).filter((call) => !isCredentialCheck(name, call)));
    const length = endless.has(name) ? Math.min(played.body.length, expected.body.length) : Infinity;
    assert.deepEqual(played.body.slice(0, length), expected.body.slice(0, length));
    if (!endless.has(name)) {
      assert.deepEqual(played.tail, expected.tail);
      assert.deepEqual(played.removed, expected.removed);
    }
    assert.ok(expected.body.length > 0);
  });
}

/** The kubelet pulls an image that is there without a record that the pod may use it; play does not. */
function isCredentialCheck(name: string, call: string): boolean {
  return name === "sidecar-job" && call === `PullImage ${image}`;
}

/** A call of the fake in the words of the recording: `StopContainer main 3s`. */
function translate(call: string): string {
  return `${call.charAt(0).toUpperCase()}${call.slice(1)}`;
}

interface Sequence {
  /** Until the pod is stopped, without removals. */
  readonly body: readonly string[];
  /** The calls that stop the pod, sorted: containers that are stopped at once have no order. */
  readonly tail: readonly string[];
  /** Containers that were removed before. */
  readonly removed: readonly string[];
}

function split(calls: readonly string[]): Sequence {
  const end = calls.findIndex((call) => call.startsWith("StopPodSandbox"));
  const before = calls
    .slice(0, end === -1 ? calls.length : end)
    .filter((call) => !call.startsWith("ExecSync"));
  const removed = new Set(before.filter(isRemoval).map((call) => call.split(" ")[1] ?? ""));
  const rest = before.filter((call) => !isRemoval(call));
  let first = rest.length;
  while (rest[first - 1]?.startsWith("StopContainer") === true) first -= 1;
  const tail = rest.slice(first).map(plain).sort();
  return { body: rest.slice(0, first).map(plain), tail, removed: [...removed].sort() };
}

function isRemoval(call: string): boolean {
  return call.startsWith("RemoveContainer");
}

/** RPC and subject, with the attempt of creations and the grace period of stops. */
function plain(call: string): string {
  const [rpc = "", name = "", detail = ""] = call.replace(": failed", "").split(" ");
  if (rpc === "RunPodSandbox") return rpc;
  if (rpc === "CreateContainer") return `${rpc} ${name} ${/^\d+$/.test(detail) ? detail : "0"}`;
  return rpc === "StopContainer" ? `${rpc} ${name} ${call.split(" ").at(-1) ?? ""}` : `${rpc} ${name}`;
}
