import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { imageSteps, refuseOthers } from "../../../src/install/cli/wipe-command.js";
import { findPods } from "../../../src/install/cli/wipe-pods.js";
import { fileSteps, type FilesToWipe } from "../../../src/install/wipe-files.js";
import { networkSteps } from "../../../src/install/wipe-network.js";
import { addressFamilies, Iptables } from "../../../src/network/iptables/iptables.js";
import type { ImageSnapshot, ListedContainer } from "../../../src/domain/snapshot.js";
import { claimStateDirectory, stateDirectoryId } from "../../../src/shim/state/state-directory.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const signal = new AbortController().signal;

function listed(
  id: string,
  name: string,
  labels: Readonly<Record<string, string>>,
  status = "exited",
): ListedContainer {
  return {
    id,
    names: [name],
    labels,
    status,
    created: 0n,
    imageId: "",
    imageName: "",
  } as unknown as ListedContainer;
}

test("pods whose containers are gone are found by their files, with logs where kubelets have them", async () => {
  await using directory = await temporaryDirectory();
  const [first, second, present] = ["1", "2", "3"].map((digit) => digit.repeat(64)) as [
    string,
    string,
    string,
  ];
  for (const name of ["pods", "sandbox"]) await mkdir(join(directory.path, name));
  const record = (id: string, logDirectory: string): Promise<void> =>
    writeFile(
      join(directory.path, "pods", `${id}.json`),
      JSON.stringify({ namespace: "shop", name: "web", uid: "u1", logDirectory }),
    );
  await record(first, "/elsewhere/shop_web_u1.0123456789ab");
  await record(present, "/var/log/pods/shop_web_u2");
  for (const name of [first, second, ".dockershim-half"])
    await writeFile(join(directory.path, "sandbox", name), "{}");
  const labels = { "io.kubernetes.docker.type": "podsandbox" };
  const engine = {
    listContainers: () => Promise.resolve([listed(present, "k8s_POD_a_b_c_0", labels)]),
    inspectImage: () => assert.fail("no container has its labels from an image"),
  };
  const place = { stateDir: directory.path, engineId: "one" };
  const { pods, running } = await findPods(engine, place, signal);
  const usual = "/var/log/pods/shop_web_u1";
  const line = (id: string): string =>
    `remove  pod ${id.slice(0, 12)}, whose containers are gone: network, logs`;
  assert.deepEqual(pods.slice(1), [
    { id: first, text: line(first), logDirectories: [usual, "/elsewhere/shop_web_u1.0123456789ab"] },
    { id: second, text: line(second), logDirectories: [] },
  ]);
  assert.equal(running, 0);
  for (const other of ["/etc", "/var/log/pods/."]) {
    await record(first, other);
    assert.deepEqual((await findPods(engine, place, signal)).pods[1]?.logDirectories, [usual], other);
  }
  await writeFile(join(directory.path, "engine-id"), "one\n");
  assert.equal((await findPods(engine, place, signal)).pods.length, 3);
  await writeFile(join(directory.path, "engine-id"), "two\n");
  assert.deepEqual(
    (await findPods(engine, place, signal)).pods.map(({ id }) => id),
    [present],
    "pods of another engine may run there",
  );
});

test("pods are found by labels, with the logs that have their names; other containers are only named", async () => {
  await using directory = await temporaryDirectory();
  await mkdir(join(directory.path, "pods"));
  const record = (logDirectory: string): Promise<void> =>
    writeFile(join(directory.path, "pods", "a.json"), JSON.stringify({ logDirectory }));
  const ofPod = { "io.kubernetes.docker.type": "container", "io.kubernetes.sandbox.id": "a" };
  const all = [
    listed("a", "k8s_POD_web_shop_u1_0", { "io.kubernetes.docker.type": "podsandbox" }),
    listed(
      "b",
      "k8s_c_web_shop_u1_0",
      { ...ofPod, "io.kubernetes.container.logpath": "/logs/shop_web_u1/c/0.log" },
      "running",
    ),
    listed("c", "k8s_c_old_shop_u2_0", { ...ofPod, "io.kubernetes.sandbox.id": "gone" }),
    listed("d", "postgres", { "com.example": "1" }, "running"),
    listed("e", "dockershim-scratch-1", { "dockershim.scratch": "x" }),
    listed("f", "made-by-docker-commit", ofPod, "running"),
  ];
  const image = { labels: ofPod } as unknown as ImageSnapshot;
  const engine = {
    listContainers: () => Promise.resolve(all),
    inspectImage: () => Promise.resolve(image),
  };
  await record("/elsewhere/shop_web_u1.0123456789ab");
  const { pods, orphans, running, others } = await findPods(
    engine,
    { stateDir: directory.path, engineId: "" },
    signal,
  );
  assert.deepEqual(pods, [
    {
      id: "a",
      text: "remove  pod shop/web (running): 1 containers, network, logs",
      logDirectories: [
        "/var/log/pods/shop_web_u1",
        "/elsewhere/shop_web_u1.0123456789ab",
        "/logs/shop_web_u1",
      ],
    },
  ]);
  assert.deepEqual(orphans, [
    { id: "c", text: "remove  container k8s_c_old_shop_u2_0 of a pod that is gone" },
  ]);
  assert.equal(running, 1);
  assert.deepEqual(others, ["postgres", "made-by-docker-commit"]);
  await record("/etc");
  const [pod] = (await findPods(engine, { stateDir: directory.path, engineId: "" }, signal)).pods;
  assert.ok(pod?.logDirectories.includes("/etc") === false);
});

describe("fileSteps()", () => {
  async function stateWith(
    paths: readonly string[],
  ): Promise<{ path: string; files: FilesToWipe } & AsyncDisposable> {
    const directory = await temporaryDirectory();
    const state = join(directory.path, "state");
    for (const path of paths) {
      await mkdir(dirname(join(state, path)), { recursive: true });
      await writeFile(join(state, path), "");
    }
    const files = {
      ...{ stateDirectories: [state, state], playIn: state, keepClaims: true },
      ...{ sockets: [join(directory.path, "none")], directories: [] },
      removeTree: (path: string) => rm(path, { recursive: true }),
    };
    return { path: state, files, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() };
  }
  const ofServer = ["sandbox/a", "pods/a.json", "engine-id", "programs/x", "history/v1-00000001.jsonl"];
  const own = [...ofServer, "play/UID/pod.json"];

  test("removes the state directory with all that is its own, once", async () => {
    await using state = await stateWith(own);
    const { steps, kept } = await fileSteps(state.files);
    assert.deepEqual(kept, []);
    for (const { run } of steps) await run();
    assert.ok(!existsSync(state.path));
    assert.deepEqual((await fileSteps(state.files)).steps, []);
  });

  test("keeps data of claims, what npm start installed and files of others, and names them", async () => {
    await using state = await stateWith([...own, "play/claims.d/default/data", "setup.json", "mine.txt"]);
    const { steps, kept } = await fileSteps(state.files);
    assert.deepEqual(
      kept.map((line) => line.slice("keep    ".length + state.path.length, line.indexOf(": "))),
      ["/play/claims.d", "/setup.json", "/mine.txt"],
    );
    for (const { run } of steps) await run();
    assert.deepEqual((await readdir(state.path)).sort(), ["mine.txt", "play", "setup.json"]);
    assert.deepEqual(await readdir(join(state.path, "play")), ["claims.d"]);
    const all = await fileSteps({ ...state.files, keepClaims: false });
    for (const { run } of all.steps) await run();
    assert.deepEqual((await readdir(state.path)).sort(), ["mine.txt", "setup.json"]);
  });

  test("keeps directories of its names that hold other things, as those of Docker and of kubelets", async () => {
    const others = ["containers/0a/config.v2.json", "pods/UID/etc-hosts", "logs/web.log", "history/bash.txt"];
    await using state = await stateWith([...others, "sandbox/a", "engine-id"]);
    const { steps, kept } = await fileSteps(state.files);
    for (const { run } of steps) await run();
    for (const path of others) assert.ok(existsSync(join(state.path, path)), path);
    assert.deepEqual((await readdir(state.path)).sort(), ["containers", "history", "logs", "pods"]);
    assert.equal(kept.filter((line) => line.endsWith(": of another program")).length, 4);
  });

  test("keeps a directory play elsewhere than where play has its files", async () => {
    await using state = await stateWith(["play/score.txt", "engine-id"]);
    const { steps, kept } = await fileSteps({ ...state.files, playIn: "/elsewhere" });
    for (const { run } of steps) await run();
    assert.ok(existsSync(join(state.path, "play/score.txt")));
    assert.deepEqual(kept, [`keep    ${join(state.path, "play")}: of another program`]);
  });

  test("keeps what is no socket at the path of a socket, and names it", async () => {
    await using state = await stateWith(["data/file"]);
    const data = join(state.path, "data");
    const { steps, kept } = await fileSteps({ ...state.files, stateDirectories: [], sockets: [data] });
    for (const { run } of steps) await run();
    assert.ok(existsSync(join(data, "file")));
    assert.deepEqual(kept, [`keep    ${data}: it is no socket`]);
  });
});

test("scratch containers that a killed server has left on the state directory go, before the images; others stay", async () => {
  const engine = new FakeEngine();
  const config = { stateDir: "/var/lib/ours", pauseImage: "example/pause:1" };
  engine.images.add({ tags: [config.pauseImage] });
  const leave = (name: string, stateDir: string): string =>
    engine.containers.create(name, {
      Image: config.pauseImage,
      Labels: { "dockershim.scratch": `${stateDirectoryId(stateDir)}/run` },
      HostConfig: {},
    });
  leave("dockershim-scratch-1", config.stateDir);
  const others = [leave("dockershim-scratch-2", "/var/lib/theirs"), leave("web", config.stateDir)];
  const steps = await imageSteps(engine, config, signal, (line) => assert.fail(line));
  for (const { text, run } of steps) if (text.startsWith("remove  container")) await run();
  assert.deepEqual(engine.containers.ids, others);
  assert.match(steps.at(-1)?.text ?? "", /^remove {2}image example\/pause:1$/);
});

test("a server on any of the state directories that are to go is refused, but for one that a unit runs", async () => {
  await using directory = await temporaryDirectory();
  const directories = [join(directory.path, "none"), directory.path];
  const claim = await claimStateDirectory(directory.path);
  await assert.rejects(
    refuseOthers(directories, []),
    /another dockershim, on ".*", serves pods.*stop it first/,
  );
  await refuseOthers(directories, ["dockershim.service"]);
  await claim.release();
  await refuseOthers(directories, []);
});

test("of the node's network, kubenet's rules and bridges go whose ports go within 8 s, and no others", async () => {
  await using directory = await temporaryDirectory();
  // An edit, by which pods share Docker's bridge.
  const edited = { type: "bridge", bridge: "docker0" };
  const list = { plugins: [{ type: "bridge", bridge: "cni0" }, edited] };
  await writeFile(join(directory.path, "10-dockershim.conflist"), JSON.stringify(list));
  const done: string[] = [];
  let waitedMs = 0;
  const pause = (milliseconds: number) => {
    waitedMs += milliseconds;
    return Promise.resolve();
  };
  const run = (program: string, words: readonly string[], { input = "" }: { readonly input?: string }) => {
    const call = [program, ...words].join(" ");
    const nat =
      '*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -m comment --comment "kubenet: SNAT for outbound traffic from cluster" -j MASQUERADE\n-A POSTROUTING -j OTHER\nCOMMIT\n';
    const links = [
      { ifname: "cbr0", mtu: 1500, flags: [] },
      { ifname: "cni0", mtu: 1500, flags: [] },
      { ifname: "docker0", mtu: 1500, flags: [] },
      { ifname: "veth1", mtu: 1500, flags: [], master: "cni0" },
      ...(waitedMs < 8_000 ? [{ ifname: "veth2", mtu: 1500, flags: [], master: "cbr0" }] : []),
    ];
    if (/-save|-L|show/.test(call)) {
      const stdout =
        call === "iptables-save -t nat" ? nat : call.startsWith("ip -json") ? JSON.stringify(links) : "";
      return Promise.resolve({ exitCode: program === "ebtables" ? 1 : 0, stdout, stderr: "" });
    }
    done.push(`${call} ${input}`.trim());
    return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
  };
  const version = { text: "iptables v1.8.9 (nf_tables)", parts: [1, 8, 9], backend: "nft" } as const;
  const tools = { suffix: "" as const, version, reason: "", differsFromDefault: false };
  const iptables = { everywhere: () => Promise.resolve([new Iptables(tools, { run })]) };
  assert.equal(addressFamilies.length, 2);
  const steps = await networkSteps({ run, iptables, cniConfDir: directory.path, pause }, signal);
  for (const step of steps) {
    if (step.text.endsWith("cni0"))
      await assert.rejects(step.run(), /it has ports, of pods of another program/);
    else await step.run();
  }
  assert.deepEqual(
    steps.map(({ text }) => text.replace(directory.path, "DIR")),
    [
      "remove  1 rules of kubenet in POSTROUTING (ipv4 nat)",
      "remove  bridge cbr0",
      "remove  bridge cni0",
      "remove  DIR/10-dockershim.conflist",
    ],
  );
  assert.match(done[0] ?? "", /^iptables-restore .*--noflush.*\n-D POSTROUTING .*kubenet: SNAT.*\nCOMMIT$/s);
  assert.equal(done[1], "ip link delete cbr0");
});
