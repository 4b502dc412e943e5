import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ContainerState, PodSandboxState } from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { Kubelet } from "../../../../src/play/kubelet/kubelet.js";
import type { KubeletDeps } from "../../../../src/play/kubelet/kubelet-deps.js";
import type { Manifest } from "../../../../src/play/manifests/read-manifests.js";
import { Application } from "../../../../src/play/session/application.js";
import { removePods } from "../../../../src/play/session/remove-pods.js";
import type { Fixture } from "../fake-cri.js";
import { until } from "../../../fakes/turns.js";
import { makeFixture, podWith, readOnePod } from "../fake-cri.js";

const image = "image: busybox:1";
const spec = `
  terminationGracePeriodSeconds: 4
  initContainers: [{name: init, ${image}}]
  containers: [{name: a, ${image}, volumeMounts: [{name: v, mountPath: /v, subPath: s}]}, {name: b, ${image}}]
  volumes: [{name: v, emptyDir: {}}]
`;
const other = `apiVersion: v1
kind: Pod
metadata: {name: other, uid: uid-2}
spec: {containers: [{name: c, ${image}}]}
`;
const allCalls = [
  "runPodSandbox web",
  "createContainer init",
  "startContainer init",
  "createContainer a",
  "startContainer a",
  "createContainer b",
  "startContainer b",
];
const { signal } = new AbortController();

function fixtureWithInit(exitCode = 0): Fixture {
  const fixture = makeFixture();
  fixture.cri.exits.set("init", exitCode);
  return fixture;
}

/** The first application of pods, by a kubelet that stays. */
async function playUp(
  manifests: readonly Manifest[],
  kubelet: Kubelet,
  deps: KubeletDeps,
  options: { readonly keep: boolean },
  aborted = signal,
): Promise<void> {
  await using application = new Application(kubelet, deps, options, aborted);
  await Promise.all(manifests.map((manifest) => application.apply(manifest)));
  application.commit();
}

async function up(fixture: Fixture, { keep = false, text = spec } = {}): Promise<void> {
  const { deps } = fixture;
  await using kubelet = new Kubelet(deps);
  await playUp([await podWith(text)], kubelet, deps, { keep });
}

/** Another play on the same node. */
const laterOf = ({ deps }: Pick<Fixture, "deps">): KubeletDeps => ({ ...deps, playId: "play-2" });

/** A running pod, without the calls and reports of its start. */
async function runningPod(): Promise<Fixture> {
  const fixture = fixtureWithInit();
  await up(fixture);
  fixture.cri.calls.length = 0;
  fixture.reports.length = 0;
  return fixture;
}

describe("the first application", () => {
  test("prepares volumes and the log directory before the sandbox", async () => {
    const fixture = fixtureWithInit();
    fixture.cri.failOn = "runPodSandbox web";
    await assert.rejects(up(fixture, { keep: true }));
    assert.deepEqual(fixture.files.calls, [
      "writeFile /state/uid-1/owner",
      "writeFile /state/uid-1/pod.json",
      "makeDirectory /state/uid-1/starting/1",
      "prepareVolume emptyDir /state/uid-1/volumes/empty-dir/v",
      "makeDirectory /logs/default_web_uid-1",
      "removeTree /state/uid-1/starting/1",
    ]);
  });

  test("mounts the volume, /etc/hosts and the termination message file", async () => {
    const fixture = fixtureWithInit();
    await up(fixture);
    const config = fixture.cri.containers.find(({ config: { metadata } }) => metadata?.name === "a")?.config;
    assert.deepEqual(
      config?.mounts?.map(({ container_path = "", host_path = "" }) => `${container_path} ${host_path}`),
      [
        "/v /state/uid-1/volumes/sub-paths/v/a/0",
        "/etc/hosts /state/uid-1/etc-hosts",
        "/dev/termination-log /state/uid-1/containers/a/termination-message-0",
      ],
    );
    const text = fixture.files.texts.get("/state/uid-1/etc-hosts") ?? "";
    assert.match(text, /^10\.1\.2\.3\tweb$\n^fd00::3\tweb$/m);
  });

  test("pulls the images of volumes before their container, once each, and mounts what was pulled", async () => {
    const fixture = makeFixture();
    const mounts = "volumeMounts: [{name: m, mountPath: /m, subPath: a}, {name: o, mountPath: /n}]";
    await up(fixture, {
      text: `
  containers: [{name: a, ${image}, ${mounts}}, {name: b, ${image}, ${mounts}}]
  volumes:
  - {name: m, image: {reference: "model:1"}}
  - {name: o, image: {reference: busybox:1, pullPolicy: Never}}
  - {name: unused, image: {reference: "unused:1"}}`,
    });
    assert.deepEqual(fixture.cri.calls.slice(0, 3), [
      "runPodSandbox web",
      "pullImage model:1",
      "createContainer a",
    ]);
    assert.equal(fixture.cri.calls.filter((call) => call.startsWith("pullImage")).length, 1);
    for (const { config } of fixture.cri.containers) {
      const images = config.mounts?.flatMap(({ image: mounted, image_sub_path }) =>
        mounted
          ? [`${String(mounted.image)} ${String(mounted.user_specified_image)} ${String(image_sub_path)}`]
          : [],
      );
      assert.deepEqual(images, ["id of id of model:1 model:1 a", "id of busybox:1 busybox:1 "]);
    }
  });

  test("leaves /etc/hosts alone where a volume is mounted", async () => {
    const fixture = makeFixture();
    const mounts = "volumeMounts: [{name: v, mountPath: /etc/hosts}]";
    await up(fixture, { text: `  containers: [{name: a, ${image}, ${mounts}}]\n  volumes: [{name: v}]` });
    const paths = fixture.cri.containers[0]?.config.mounts?.map((mount) => mount.container_path);
    assert.deepEqual(paths, ["/etc/hosts", "/dev/termination-log"]);
  });

  test("gives pods of the host network the node's hosts file and the aliases, and passes the runtime class", async () => {
    const fixture = makeFixture();
    const aliases = "hostAliases: [{ip: 192.0.2.9, hostnames: [db, db.local]}]";
    const lines = `hostNetwork: true\n  runtimeClassName: gvisor\n  ${aliases}`;
    await up(fixture, { text: `  ${lines}\n  containers: [{name: a, ${image}}]` });
    const expected = "127.0.0.1 localhost\n192.0.2.7 node\n\n# hostAliases\n192.0.2.9\tdb\tdb.local\n";
    assert.equal(fixture.files.texts.get("/state/uid-1/etc-hosts"), expected);
    assert.deepEqual(fixture.cri.runtimeHandlers, ["gvisor"]);
  });

  for (const [index, call] of allCalls.entries()) {
    for (const failsLate of [false, true])
      test(`removes all that it has made when ${call} fails${failsLate ? " although it was done" : ""}`, async () => {
        const fixture = fixtureWithInit();
        const { cri, files } = fixture;
        Object.assign(cri, { failOn: call, failsLate });
        const message = /^play pod "default\/web" \(pod\.yaml\): (create|start) .*: it (broke|was slow)$/;
        await assert.rejects(up(fixture), { message });
        assert.deepEqual(cri.calls.slice(0, index + 1), allCalls.slice(0, index + 1));
        assert.deepEqual(cri.sandboxes, []);
        assert.deepEqual(cri.containers, []);
        assert.deepEqual([...files.paths], []);
      });
  }

  test("keeps what it has made with keep, and goes on from there the next time", async () => {
    const fixture = fixtureWithInit();
    fixture.cri.failOn = "startContainer a";
    await assert.rejects(up(fixture, { keep: true }));
    assert.equal(fixture.cri.sandboxes.length, 1);
    fixture.cri.failOn = "";
    fixture.cri.calls.length = 0;
    await up(fixture);
    assert.deepEqual(fixture.cri.calls, ["createContainer a 1", "startContainer a"]);
  });

  test("removes only its own containers from a sandbox that was there before", async () => {
    const fixture = fixtureWithInit();
    fixture.cri.failOn = "createContainer b";
    await assert.rejects(up(fixture, { keep: true }));
    fixture.cri.failOn = "startContainer b";
    await assert.rejects(up(fixture));
    const names = fixture.cri.containers.map(({ config }) => config.metadata?.name);
    assert.deepEqual(names, ["init", "a"]);
    assert.ok(fixture.files.paths.size > 0);
  });

  test("shows the end of the log of an init container that failed", async () => {
    const fixture = fixtureWithInit(3);
    fixture.files.texts.set(
      "/logs/default_web_uid-1/init/0.log",
      '{"log":"no such table\\n","stream":"stderr"}\n',
    );
    await assert.rejects(
      up(fixture, { text: `${spec}  restartPolicy: Never\n` }),
      /init container "init" failed: exit code 3\n {2}init: no such table$/,
    );
    assert.deepEqual(fixture.cri.sandboxes, []);
  });

  test("does nothing for a running pod, and reports that", async () => {
    const fixture = await runningPod();
    await up(fixture);
    assert.deepEqual(fixture.cri.calls, []);
    assert.deepEqual(fixture.reports, ["default/web: already running"]);
  });

  test("deletes a pod whose spec has changed and makes it again, and keeps nothing when that fails", async () => {
    const fixture = await runningPod();
    await up(fixture, { text: `${spec}  hostname: other\n` });
    const deletion = [
      "stopContainer b 4s",
      "stopContainer a 4s",
      "stopPodSandbox web",
      "removePodSandbox web",
    ];
    assert.deepEqual(fixture.cri.calls, [...deletion, ...allCalls]);
    fixture.cri.failOn = "createContainer b";
    await assert.rejects(up(fixture, { text: `${spec}  hostname: third\n` }), /it broke/);
    assert.deepEqual([fixture.cri.sandboxes, [...fixture.files.paths]], [[], []]);
  });

  test("removes a new sandbox that fails beside the ended one", async () => {
    const fixture = await runningPod();
    for (const sandbox of fixture.cri.sandboxes) sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    for (const container of fixture.cri.containers) container.state = ContainerState.CONTAINER_EXITED;
    fixture.cri.failOn = "createContainer b 1";
    await assert.rejects(up(fixture), /it broke/);
    const states = fixture.cri.sandboxes.map(({ state }) => state);
    assert.deepEqual(states, [PodSandboxState.SANDBOX_NOTREADY]);
    assert.ok(fixture.files.paths.size > 0);
  });

  test("removes the earlier pods, too, when a pod fails", async () => {
    const { cri, kubelet, deps } = fixtureWithInit();
    cri.failOn = "startContainer c";
    const pods = [await podWith(spec), await readOnePod(other)];
    await assert.rejects(playUp(pods, kubelet, deps, { keep: false }));
    const removed = cri.calls.filter((call) => call.startsWith("removePod"));
    assert.deepEqual(removed, ["removePodSandbox other", "removePodSandbox web"]);
  });

  test("reports a failed undo and throws the first error", async () => {
    const fixture = makeFixture();
    fixture.cri.failOn = "startContainer a";
    fixture.cri.stopPodSandbox = () => Promise.reject(new Error("stuck"));
    await assert.rejects(up(fixture, { text: `  containers: [{name: a, ${image}}]` }), /it broke/);
    const said = fixture.reports.join("\n");
    assert.match(said, /cannot remove pod "default\/web": stuck; remove it with "play --down"/);
    assert.ok(fixture.files.paths.size > 0, "the files of containers that may still run are kept");
  });

  test("stops while an init container runs, and removes it, when the user leaves", async () => {
    const fixture = makeFixture();
    const controller = new AbortController();
    const started = fixture.cri.startContainer.bind(fixture.cri);
    fixture.cri.startContainer = async (id) => {
      await started(id);
      controller.abort(new Error("interrupted"));
    };
    await assert.rejects(
      playUp([await podWith(spec)], fixture.kubelet, fixture.deps, { keep: false }, controller.signal),
      /interrupted/,
    );
    assert.deepEqual(fixture.cri.calls.slice(3), [
      "stopContainer init 4s",
      "stopPodSandbox web",
      "removePodSandbox web",
    ]);
  });

  test("gives up when the server does not show what was done", async () => {
    const fixture = makeFixture();
    fixture.cri.startContainer = () => Promise.resolve();
    const text = `  containers: [{name: a, ${image}}]`;
    await assert.rejects(up(fixture, { text }), /the calls succeed, but the CRI server does not show/);
  });
});

test("a failure that its caller reports leaves the rest of an application alone", async () => {
  const { cri, deps } = makeFixture();
  await using kubelet = new Kubelet(deps);
  await using application = new Application(kubelet, deps, { keep: false }, signal);
  const good = await podWith(`  containers: [{name: a, ${image}}]`);
  const bad = await readOnePod(other);
  let hasFailed = false;
  const runPodSandbox = cri.runPodSandbox.bind(cri);
  cri.runPodSandbox = async (config, ...rest) => {
    if (config.metadata?.name === "other") throw new ShimError("invalid", "no sandbox");
    await until("the other has failed", () => hasFailed);
    return runPodSandbox(config, ...rest);
  };
  // As a Job does that makes its next pod.
  const job = application.apply(bad).catch(() => (hasFailed = true));
  await Promise.all([application.apply(good), job]);
  application.commit();
});

describe("two plays of one pod", () => {
  test("the earlier one starts nothing more when the later one takes the pod in the middle of a turn", async () => {
    const fixture = makeFixture();
    const { cri, files } = fixture;
    const manifest = await podWith(`  containers: [{name: a, ${image}}, {name: b, ${image}}]`);
    await using earlier = new Kubelet(fixture.deps);
    const later = laterOf(fixture);
    await using kubelet = new Kubelet(later);
    let second: Promise<void> | undefined;
    const start = cri.startContainer.bind(cri);
    cri.startContainer = async (id) => {
      await start(id);
      cri.startContainer = start;
      second = playUp([manifest], kubelet, later, { keep: false });
      await until(
        "the later one has taken the pod",
        () => files.texts.get("/state/uid-1/owner") === "play-2",
      );
    };
    await assert.rejects(playUp([manifest], earlier, fixture.deps, { keep: false }), /taken over/);
    await fixture.clock.advance(50);
    await second;
    assert.deepEqual(
      cri.calls.filter((call) => /^(create|start)Container/.test(call)),
      ["createContainer a", "startContainer a", "createContainer b", "startContainer b"],
    );
  });

  test("the later one waits for a start that is under way, and takes the container that runs", async () => {
    const fixture = makeFixture();
    const { cri, files, clock, events } = fixture;
    const manifest = await podWith(spec);
    const later = laterOf(fixture);
    await using earlier = new Kubelet(fixture.deps);
    await using kubelet = new Kubelet(later);
    kubelet.listen({ onEvent: (event) => events.push(event) });
    const start = cri.startContainer.bind(cri);
    let isTaking = false;
    cri.startContainer = async (id) => {
      cri.startContainer = start;
      kubelet.apply(manifest, { failFast: true });
      await until("it is taken", () => files.texts.get("/state/uid-1/owner") === "play-2");
      await clock.advance(1000);
      isTaking = true;
      await start(id);
    };
    earlier.apply(manifest, { failFast: true });
    await until("the start goes on", () => isTaking);
    await clock.advance(1000);
    assert.deepEqual(cri.calls, allCalls.slice(0, 3));
    cri.end("init", 0);
    await kubelet.pod(manifest.key)?.applied;
    assert.deepEqual(cri.calls, allCalls);
    const waits = events.filter(({ reason }) => reason === "Waiting").map(({ message }) => message);
    assert.deepEqual(waits, ["process 1 starts something of the pod: waiting until it has"]);
  });

  for (const [what, isRefused] of [
    ["starts what it finds", false],
    ["takes what the server has started meanwhile", true],
  ] as const)
    test(`of a play that was killed between creation and start, the next one ${what}`, async () => {
      const fixture = fixtureWithInit();
      const { cri, files } = fixture;
      cri.refusedStarts.add("init");
      await assert.rejects(up(fixture, { keep: true }));
      cri.refusedStarts.clear();
      cri.calls.length = 0;
      const start = cri.startContainer.bind(cri);
      if (isRefused)
        cri.startContainer = async (id) => {
          cri.startContainer = start;
          await start(id);
          throw new ShimError("precondition", "it is exited");
        };
      await files.makeDirectory("/state/uid-1/starting/killed");
      await up({ ...fixture, deps: laterOf(fixture) });
      assert.deepEqual(cri.calls, allCalls.slice(2));
      assert.deepEqual(await files.list("/state/uid-1/starting"), []);
    });

  test("of a start that the server undoes when its client is killed, the end is waited for", async () => {
    const fixture = fixtureWithInit();
    const { cri, files, clock } = fixture;
    cri.refusedStarts.add("init");
    await assert.rejects(up(fixture, { keep: true }));
    cri.refusedStarts.clear();
    cri.calls.length = 0;
    const start = cri.startContainer.bind(cri);
    cri.startContainer = async (id) => {
      cri.startContainer = start;
      cri.failingStarts.add("init");
      clock.after(300, () => {
        void start(id).catch(() => cri.failingStarts.clear());
      });
      return Promise.reject(new ShimError("unknown", "container is already in starting state"));
    };
    await files.makeDirectory("/state/uid-1/starting/killed");
    const later = laterOf(fixture);
    await using kubelet = new Kubelet(later);
    const played = playUp([await podWith(spec)], kubelet, later, { keep: false });
    await clock.advance(1000);
    await played;
    const again = ["createContainer init 1", "startContainer init"];
    const found = cri.calls.filter((call) => / init/.test(call) && !call.startsWith("remove"));
    assert.deepEqual(found, ["startContainer init", ...again]);
  });

  test("the earlier one, which has just acted, removes nothing while the later one makes the pod again", async () => {
    const fixture = fixtureWithInit();
    const { cri } = fixture;
    const manifest = await podWith(spec);
    const changed = await podWith(`${spec}  hostname: other\n`);
    await using earlier = new Kubelet(fixture.deps);
    await playUp([manifest], earlier, fixture.deps, { keep: false });
    const later = laterOf(fixture);
    await using kubelet = new Kubelet(later);
    let isRestarting = false;
    let isKilling = false;
    const start = cri.startContainer.bind(cri);
    cri.startContainer = async (id) => {
      isRestarting = true;
      await until("the later one kills the pod", () => isKilling);
      await start(id).catch(() => undefined);
    };
    cri.end("a", 1);
    await until("the earlier one restarts a container", () => isRestarting);
    cri.startContainer = start;
    const stop = cri.stopContainer.bind(cri);
    let stops = 0;
    cri.stopContainer = async (...request) => {
      stops += 1;
      isKilling = true;
      await until(
        "the earlier loop has judged",
        () => stops > 1 || earlier.pod(manifest.key)?.isOver === true,
      );
      await stop(...request);
    };
    await playUp([changed], kubelet, later, { keep: false });
    assert.equal(earlier.pod(manifest.key)?.lastEvent?.message, "another play has taken over the pod");
    assert.equal(fixture.files.texts.get("/state/uid-1/owner"), "play-2");
    assert.equal(cri.sandboxes.length, 1);
  });

  for (const [what, isNoticed] of [
    ["has taken silently", false],
    ["has now", true],
  ] as const)
    test(`a first application that fails undoes nothing of a pod that another play ${what}`, async () => {
      const { cri, files, deps, kubelet } = fixtureWithInit();
      const pods = [await podWith(spec), await readOnePod(other)];
      cri.runPodSandbox = ((create) => async (config, handler) => {
        if (config.metadata?.name === "web") return create(config, handler);
        // The second pod fails after another play has taken the first one.
        const [worker] = kubelet.pods;
        await until("the first pod is there", () => cri.calls.includes("startContainer b"));
        await worker?.applied;
        await files.replaceFile("/state/uid-1/owner", "play-2");
        if (isNoticed) {
          worker?.wake();
          await until("it is given up", () => worker?.loss !== undefined);
        }
        throw new Error("no sandbox");
      })(cri.runPodSandbox.bind(cri));
      await assert.rejects(playUp(pods, kubelet, deps, { keep: false }), /no sandbox/);
      const names = cri.sandboxes.map(({ config }) => config.metadata?.name);
      assert.deepEqual(names, ["web"]);
    });
});

describe("removePods()", () => {
  for (const uid of ["", "..", "../../etc"])
    test(`removes no files under the uid "${uid}" of a sandbox`, async () => {
      const fixture = fixtureWithInit();
      await up(fixture);
      const { key } = await podWith(spec);
      fixture.files.calls.length = 0;
      await removePods([{ source: "", key: { ...key, uid } }], fixture.deps, signal);
      assert.deepEqual(fixture.files.calls, [
        "removeTree /state/uid-1/owner",
        "removeTree /logs/default_web_uid-1",
        "removeTree /state/uid-1",
      ]);
    });

  test("leaves a pod of the same name that play did not make, with its files", async () => {
    const fixture = makeFixture();
    const { key } = await podWith(spec);
    const { name, namespace, uid } = key;
    const labels = { "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace };
    await fixture.cri.runPodSandbox({ metadata: { name, namespace, uid, attempt: 0 }, labels }, "");
    fixture.files.paths.add("/state/uid-1");
    fixture.cri.calls.length = 0;
    assert.equal((await removePods([{ source: "f", key }], fixture.deps, signal)).failed, 1);
    assert.deepEqual(fixture.cri.calls, []);
    assert.deepEqual(fixture.files.calls, []);
    assert.match(fixture.reports.at(-1) ?? "", /not removed/);
  });

  test("leaves no file of a pod that an attached play was about to start something of", async () => {
    const fixture = fixtureWithInit();
    const { cri, files, deps } = fixture;
    await using kubelet = new Kubelet(deps);
    const manifest = await podWith(spec);
    await playUp([manifest], kubelet, deps, { keep: false });
    const makeDirectory = files.makeDirectory.bind(files);
    let removal: Promise<unknown> | undefined;
    // The attached play restarts the container, and has looked for its mark just before.
    files.makeDirectory = async (path) => {
      if (path.includes("/starting/"))
        await (removal ??= removePods([{ source: "", key: manifest.key }], deps, signal));
      return makeDirectory(path);
    };
    cri.end("a", 1);
    await until("the loop has ended", () => kubelet.pod(manifest.key)?.isOver === true);
    await until("it is removed", () => cri.sandboxes.length === 0);
    await kubelet[Symbol.asyncDispose]();
    assert.deepEqual([...files.paths], []);
  });

  test("goes on with the other pods when one cannot be removed", async () => {
    const fixture = fixtureWithInit();
    await up(fixture);
    fixture.cri.failOn = "stopPodSandbox web";
    const { key } = await podWith(spec);
    const pods = [
      { source: "f", key: { ...key, name: "other", uid: "uid-2" } },
      { source: "f", key },
    ];
    assert.equal((await removePods(pods, fixture.deps, signal)).failed, 1);
    assert.deepEqual(fixture.reports.slice(-2), [
      "default/other: not there",
      "default/web: cannot be removed: it broke",
    ]);
    assert.ok(fixture.files.paths.size > 0);
  });
});
