import assert from "node:assert/strict";
import { appendFileSync, existsSync } from "node:fs";
import { readFile, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { orAbort } from "../../../../src/lib/abort.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { ContainerState, PodSandboxState } from "../../../../src/domain/cri.js";
import type { ManifestFile } from "../../../../src/play/manifests/documents.js";
import { readRemoval, readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { PlayStore, type StoredPlay, namesToRemove, namesOf } from "../../../../src/play/store/play-store.js";
import { type HeldClaim, holdClaim, listClaims } from "../../../../src/play/store/play-claims.js";
import { podsToRemove, removePods, takenFromSupervisor } from "../../../../src/play/session/remove-pods.js";
import { supervise } from "../../../../src/play/session/supervisor.js";
import { until } from "../../../fakes/turns.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { type Fixture, makeFixture } from "../fake-cri.js";

const pod = (name: string, policy = "Always"): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\n` +
  `spec: {restartPolicy: ${policy}, containers: [{name: c-${name}, image: "busybox:1"}]}`;

async function playOf(...texts: readonly string[]): Promise<StoredPlay> {
  const files: readonly ManifestFile[] = [{ name: "f.yaml", text: texts.join("\n---\n") }];
  const workloads = [...namesOf(await readWorkloads(files))];
  return { files, replicas: [], schedule: false, localVolumes: false, fast: false, workloads };
}

/** Nothing may be reported. */
function refuse(line: string): void {
  throw new Error(line);
}

interface Supervised extends Fixture {
  readonly store: PlayStore;
  readonly lines: string[];
  /** How many plays there were at each renewal of the node's facts. */
  readonly renewals: readonly number[];
  readonly running: ReturnType<typeof supervise>;
  readonly stop: () => Promise<void>;
  readonly sandboxes: () => readonly string[];
}

interface Options {
  readonly fixture?: Fixture;
  readonly prepare?: (store: PlayStore) => Promise<void>;
  readonly report?: (line: string, store: PlayStore) => void;
  readonly isSameServer?: () => Promise<boolean>;
}

const shown = (): Disposable => ({ [Symbol.dispose]: () => undefined });

async function supervised(
  t: TestContext,
  plays: readonly StoredPlay[],
  { fixture = makeFixture(), prepare, report, isSameServer = () => Promise.resolve(true) }: Options = {},
): Promise<Supervised> {
  const store = await storeOf(t);
  for (const play of plays) await store.save(play);
  await prepare?.(store);
  const controller = new AbortController();
  const lines: string[] = [];
  const renewals: number[] = [];
  let serial = 0;
  const running = supervise(
    {
      store,
      kubeletDeps: () => ({ ...fixture.deps, playId: `supervised-${(serial += 1)}` }),
      renewNode: () => {
        renewals.push(serial);
        return Promise.resolve();
      },
      ...{ isSameServer, show: shown },
      report: (line) => {
        lines.push(line);
        report?.(line, store);
      },
    },
    controller.signal,
  );
  const sandboxes = (): readonly string[] =>
    fixture.cri.sandboxes.map(({ config }) => config.metadata?.name ?? "").sort();
  const stop = async (): Promise<void> => {
    controller.abort();
    await running;
  };
  t.after(stop);
  return { ...fixture, store, lines, renewals, running, sandboxes, stop };
}

async function storeOf(t: TestContext): Promise<PlayStore> {
  const directory = await temporaryDirectory();
  t.after(() => directory[Symbol.asyncDispose]());
  return new PlayStore(directory.path, "/run/cri.sock");
}

const started = ({ cri }: Fixture, name: string): number =>
  cri.calls.filter((call) => call === `startContainer ${name}`).length;

for (const [what, boot] of [
  [
    "have ended",
    ({ cri }: Fixture) => {
      for (const sandbox of cri.sandboxes) sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
      for (const container of cri.containers)
        Object.assign(container, { state: ContainerState.CONTAINER_EXITED, exitCode: 255 });
    },
  ],
  [
    "are gone",
    ({ cri }: Fixture) => {
      cri.sandboxes.length = 0;
      cri.containers.length = 0;
    },
  ],
] as const)
  test(`supervise() starts all pods again after a boot by which they ${what}, with their data`, async (t) => {
    const withData =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: uid-a}\n" +
      'spec: {volumes: [{name: d, emptyDir: {}}], containers: [{name: c-a, image: "busybox:1", volumeMounts: [{name: d, mountPath: /d}]}]}';
    const play = await playOf(withData, pod("b"));
    const fixture = makeFixture();
    const run = async (): Promise<void> => {
      const { stop } = await supervised(t, [play], { fixture });
      await until("both run", () => started(fixture, "c-a") === 1 && started(fixture, "c-b") === 1);
      await stop();
    };
    await run();
    boot(fixture);
    // The machine went down while something was started.
    await fixture.files.makeDirectory("/state/uid-a/starting/of-the-last-boot");
    await fixture.files.replaceFile("/state/uid-a/owner", "supervised before");
    fixture.cri.calls.length = 0;
    await run();
    assert.deepEqual(fixture.cri.calls.filter((call) => call.startsWith("runPodSandbox")).sort(), [
      "runPodSandbox a",
      "runPodSandbox b",
    ]);
    const data = "/state/uid-a/volumes/empty-dir/d";
    assert.ok(fixture.files.paths.has(data));
    const removed = fixture.files.calls.filter((call) => call.startsWith("removeTree "));
    assert.ok(!removed.some((call) => data.startsWith(call.slice("removeTree ".length))), String(removed));
    const [newest] = fixture.cri.containers.filter(({ config }) => config.metadata?.name === "c-a").reverse();
    assert.ok(newest?.config.mounts?.some(({ host_path: path }) => path === data));
  });

test("supervise() takes a play that is stored while it runs, leaves what is released, and ends with the last", async (t) => {
  const all = await supervised(t, [await playOf(pod("a"))]);
  await until("the first runs", () => started(all, "c-a") === 1);
  await all.store.save(await playOf(pod("b")));
  await until("the second runs", () => started(all, "c-b") === 1);
  assert.deepEqual(all.renewals, [1, 2], "the facts of the node are read again for each play");
  await all.store.release(new Set(["default Pod/a", "default Pod/b"]), refuse);
  await all.running;
  all.cri.end("c-a", 1);
  await all.clock.advance(60_000);
  assert.equal(started(all, "c-a"), 1);
  assert.deepEqual(all.sandboxes(), ["a", "b"]);
});

/** The pod is in the hands of an attached play. */
async function attach(all: Supervised, claimed: readonly string[]): Promise<HeldClaim> {
  const claim = await holdClaim(all.store.directory, new Set(claimed));
  await all.files.replaceFile(ownerOf(all), "attached");
  return claim;
}

function ownerOf({ cri }: Supervised, name?: string): string {
  const sandbox = cri.sandboxes.find(
    ({ config }) => (name ?? config.metadata?.name) === config.metadata?.name,
  );
  return `/state/${sandbox?.config.metadata?.uid ?? ""}/owner`;
}

test("supervise() leaves the pods of an attached play alone, and takes them back when that has failed", async (t) => {
  const all = await supervised(t, [await playOf(pod("a"))]);
  await until("it runs", () => started(all, "c-a") === 1);
  const claim = await attach(all, ["default Pod/a"]);
  all.cri.notify("default/a");
  all.cri.end("c-a", 1);
  await all.clock.advance(60_000);
  assert.equal(started(all, "c-a"), 1);
  await claim.abandon();
  await until("it is restarted", () => started(all, "c-a") === 2);
});

test("supervise() takes back the pods of an attached play that was killed before it had applied its files", async (t) => {
  const all = await supervised(t, [await playOf(pod("a"))]);
  await until("it runs", () => started(all, "c-a") === 1);
  // What a killed process leaves: a claim whose socket nobody serves.
  await all.files.replaceFile(ownerOf(all), "attached");
  await writeFile(join(all.store.directory, "play-at-00000001.json"), '{"workloads": ["default Pod/a"]}');
  all.cri.end("c-a", 1);
  await until("it is restarted", () => started(all, "c-a") === 2);
  await until("the claim is gone", () => !existsSync(join(all.store.directory, "play-at-00000001.json")));
});

test("supervise() that starts anew leaves the pods of an attached play alone until that ends", async (t) => {
  let claim: HeldClaim | undefined;
  const prepare = async ({ directory }: PlayStore): Promise<void> => {
    claim = await holdClaim(directory, new Set(["default Pod/a"]));
  };
  const all = await supervised(t, [await playOf(pod("a"), pod("b"))], { prepare });
  await until("the other runs", () => started(all, "c-b") === 1);
  assert.equal(started(all, "c-a"), 0);
  await claim?.release();
  await until("it runs", () => started(all, "c-a") === 1);
  assert.deepEqual(all.lines, []);
});

test("supervise() forgets a play whose pods have all ended", async (t) => {
  const all = await supervised(t, [await playOf(pod("a", "Never"))]);
  await until("it runs", () => started(all, "c-a") === 1);
  all.cri.end("c-a", 0);
  await all.running;
  assert.deepEqual(await all.store.list(refuse), []);
  assert.deepEqual(all.sandboxes(), ["a"]);
});

test("supervise() refuses to be the second one", async (t) => {
  const { store, ...all } = await supervised(t, [await playOf(pod("a"))]);
  await until("it runs", () => started(all, "c-a") === 1);
  const renewNode = (): Promise<void> => Promise.resolve();
  const isSameServer = (): Promise<boolean> => Promise.resolve(true);
  const deps = { store, kubeletDeps: () => all.deps, renewNode, isSameServer, show: shown, report: refuse };
  await assert.rejects(supervise(deps, new AbortController().signal), { kind: "conflict" });
});

test("supervise() reports a play that it cannot keep once, and keeps the others", async (t) => {
  const broken = { ...(await playOf(pod("x"))), files: [{ name: "f.yaml", text: "kind: [" }] };
  const all = await supervised(t, [broken, await playOf(pod("a"))]);
  await until("the other runs", () => started(all, "c-a") === 1);
  await all.store.save(await playOf(pod("b")));
  await until("another one runs", () => started(all, "c-b") === 1);
  assert.equal(all.lines.length, 1);
  assert.match(all.lines[0] ?? "", /default Pod\/x: .*f\.yaml, line 1/s);
});

test("stored plays may be read by root alone, and damaged ones are named and left out", async (t) => {
  const store = await storeOf(t);
  await store.save(await playOf(pod("a")));
  const [name = ""] = await readdir(store.directory);
  assert.equal((await stat(join(store.directory, name))).mode & 0o777, 0o600);
  assert.equal((await stat(store.directory)).mode & 0o777, 0o700);
  await writeFile(
    join(store.directory, "play-00000000-0000-0000-0000-000000000000.json"),
    '{"text": secret}',
  );
  const lines: string[] = [];
  assert.equal((await store.list((line) => lines.push(line))).length, 1);
  assert.match(lines.join("\n"), /00000000.*: is not JSON: damaged, or of another version/);
  assert.doesNotMatch(lines.join("\n"), /secret/);
  const base = dirname(store.directory);
  assert.deepEqual(await new PlayStore(base, "/run/other.sock").list(refuse), []);
  assert.equal(new PlayStore(base, "unix:///var/run/cri.sock").directory, store.directory);
});

test("a claim may be read by root alone, and leaves nothing when it is released", async () => {
  await using directory = await temporaryDirectory();
  const { directory: path } = new PlayStore(directory.path, "/run/cri.sock");
  const claim = await holdClaim(path, new Set(["default Pod/a"]));
  assert.equal((await stat(path)).mode & 0o777, 0o700);
  const names = await readdir(path);
  assert.equal(names.length, 2);
  for (const name of names) assert.equal((await stat(join(path, name))).mode & 0o777, 0o600);
  const rows = (await listClaims(path)).map(({ workloads, isHeld }) => [workloads, isHeld]);
  assert.deepEqual(rows, [[["default Pod/a"], true]]);
  await claim.release();
  assert.deepEqual(await readdir(path), []);
});

test("a stored play that another process removes meanwhile is not damaged", async (t) => {
  const store = await storeOf(t);
  await store.save(await playOf(pod("a")));
  // The name is there, the file is not.
  await symlink("gone", join(store.directory, "play-00000000-0000-0000-0000-000000000000.json"));
  assert.equal((await store.list(refuse)).length, 1);
});

test("the names of what is removed equal those of what was stored", async () => {
  const deployment =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, " +
    'template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "x:1"}]}}}';
  const cron =
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: k, namespace: ns}\nspec: {schedule: '* * * * *', " +
    'jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x:1"}]}}}}}';
  const files = [{ name: "f", text: [pod("a"), deployment, cron].join("\n---\n") }];
  const expected = new Set(["default Pod/a", "default Deployment/d", "ns CronJob/k"]);
  assert.deepEqual(namesToRemove(await readRemoval(files)), expected);
  for (const schedule of [false, true])
    assert.deepEqual(namesOf(await readWorkloads(files, { schedule })), expected);
});

test("processes that release parts of one play at once bring nothing back", async () => {
  await using directory = await temporaryDirectory();
  const names = Array.from({ length: 8 }, (_, index) => `p${index}`);
  const stores = names.map(() => new PlayStore(directory.path, "/run/cri.sock"));
  const [first] = stores;
  await first?.save(await playOf(...names.map((name) => pod(name)), pod("stays")));
  await Promise.all(
    stores.map((store, index) => store.release(new Set([`default Pod/${names[index] ?? ""}`]), refuse)),
  );
  const plays = (await first?.list(refuse)) ?? [];
  const found = plays.map(({ workloads }) => workloads);
  assert.deepEqual(found, [["default Pod/stays"]]);
  await first?.release(new Set(["default Pod/stays"]), refuse);
  assert.deepEqual(await readdir(first?.directory ?? ""), []);
});

test("of a workload that two plays have, as after a kill while it was stored, the last one counts", async (t) => {
  const store = await storeOf(t);
  const old = await playOf(pod("a"), pod("b"));
  const id = await store.save(old);
  const text = await readFile(join(store.directory, id), "utf8");
  const next = await store.save({ ...(await playOf(pod("a"))), fast: true });
  // As if nothing had been taken from the old one yet.
  for (const name of await readdir(store.directory))
    if (name.includes("without")) await rm(join(store.directory, name));
  await writeFile(join(store.directory, id), text);
  const found = await store.list(refuse);
  const rows = found.map(({ workloads, fast }) => [workloads, fast]);
  assert.deepEqual(rows, [
    [["default Pod/b"], false],
    [["default Pod/a"], true],
  ]);
  // What is removed with the last one does not come back with the old one.
  await store.remove(next);
  const seen = (await store.list(refuse)).map(({ workloads }) => workloads);
  assert.deepEqual(seen, [["default Pod/b"]]);
});

test("supervise() reports a damaged play once, also when its log is beside the play", async (t) => {
  let lists = 0;
  const prepare = async (store: PlayStore): Promise<void> => {
    await writeFile(join(store.directory, "play-00000000-0000-0000-0000-000000000000.json"), "{");
    const list = store.list.bind(store);
    store.list = (report) => {
      lists += 1;
      return list(report);
    };
  };
  const report = (line: string, { logPath }: PlayStore): void => appendFileSync(logPath, `${line}\n`);
  const all = await supervised(t, [await playOf(pod("a"))], { prepare, report });
  await until("it runs", () => started(all, "c-a") === 1);
  // What the kernel reports of the log would come before what it reports of another play.
  report("a line", all.store);
  await all.store.save(await playOf(pod("b")));
  await until("the other runs", () => started(all, "c-b") === 1);
  assert.equal(all.lines.filter((line) => line.includes("damaged")).length, 1);
  assert.ok(lists <= 4, `${lists} looks`);
});

test("what an interrupted --down has not removed is named, and the supervisor has it again", async (t) => {
  const play = await playOf(pod("a"), pod("b"));
  const all = await supervised(t, [play]);
  const { cri, store, files, reports } = all;
  await until("both run", () => started(all, "c-a") === 1 && started(all, "c-b") === 1);
  const owner = ownerOf(all, "a");
  await until("it is kept", () => files.texts.get(owner) === "supervised-1");
  const stop = cri.stopContainer.bind(cri);
  const isStopping = new Promise<void>((resolve) => {
    cri.stopContainer = async (id: string, graceSeconds: number, call?: AbortSignal) => {
      if (!id.includes("c-a")) return stop(id, graceSeconds);
      resolve();
      return orAbort(new Promise(() => undefined), call ?? new AbortController().signal);
    };
  });
  const removal = await readRemoval(play.files);
  const interrupt = new AbortController();
  const down = takenFromSupervisor(
    store,
    namesToRemove(removal),
    (line) => reports.push(line),
    async () => {
      const { pods } = await podsToRemove(removal, all.deps, interrupt.signal);
      return removePods(pods, all.deps, interrupt.signal);
    },
  );
  await isStopping;
  await until("the other is removed", () => all.sandboxes().length === 1);
  assert.equal(files.texts.get(owner), undefined);
  interrupt.abort(new ShimError("cancelled", "interrupted"));
  await down;
  assert.deepEqual(reports, [
    "default/b: removed",
    "interrupted; not removed: default/a",
    "the supervisor goes on with default Pod/a",
  ]);
  await until("it is kept again", () => files.texts.get(owner) === "supervised-1");
  const kept = (await store.list(refuse)).map(({ workloads }) => workloads);
  assert.deepEqual(kept, [["default Pod/a"]]);
});

test("supervise() ends when another server answers at the socket after an outage, and leaves the pods", async (t) => {
  let isSame = true;
  let asked = 0;
  const isSameServer = (): Promise<boolean> => {
    asked += 1;
    return Promise.resolve(isSame);
  };
  const all = await supervised(t, [await playOf(pod("a"))], { isSameServer });
  await until("it runs", () => started(all, "c-a") === 1);
  const { cri, clock, store, running } = all;
  const list = cri.listPodSandboxes.bind(cri);
  const outage = async (): Promise<void> => {
    cri.listPodSandboxes = () => Promise.reject(new ShimError("unavailable", "no server"));
    cri.notify("a");
    await clock.advance(1000);
    cri.listPodSandboxes = list;
    await clock.advance(2000);
  };
  await outage();
  await until("it was asked", () => asked === 1);
  isSame = false;
  await outage();
  assert.equal(await running, "another server");
  assert.deepEqual(all.sandboxes(), ["a"]);
  assert.equal((await store.list(refuse)).length, 1);
});
