import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { bindUnixSocket } from "../../../../src/lib/unix-socket.js";
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import { listPlays } from "../../../../src/play/session/list-plays.js";
import { Session } from "../../../../src/play/session/session.js";
import { holdClaim } from "../../../../src/play/store/play-claims.js";
import { PlayStore } from "../../../../src/play/store/play-store.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { makeFixture } from "../fake-cri.js";

const { signal } = new AbortController();
const deployment =
  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, " +
  "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'busybox:1'}]}}}}";
const pod =
  "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u-1}, spec: {containers: [{name: c, image: 'busybox:1'}]}}";

test("listPlays() names stored plays, all pods of play, and which process keeps each", async (t) => {
  const fixture = makeFixture();
  const { cri, files, reports, deps } = fixture;
  await using directory = await temporaryDirectory();
  const store = new PlayStore(directory.path, "/run/cri.sock");
  {
    await using session = new Session({ ...deps, playId: "1.first" });
    const texts = [deployment, pod].map((text) => ({ name: "f.yaml", text }));
    await session.apply(await readWorkloads(texts), { keep: false }, signal);
  }
  const stored = { replicas: [], schedule: false, localVolumes: false, fast: false };
  const names = new Set(["ns Deployment/d", "ns Deployment/none"]);
  const id = await store.save({ ...stored, files: [{ name: "d.yaml", text: "" }], workloads: [...names] });
  const list = () => listPlays({ ...deps, store }, signal);
  const keptBy = async (): Promise<readonly (string | undefined)[][]> => {
    const { plays, otherPods } = await list();
    return [...plays.flatMap(({ pods }) => pods), ...otherPods].map((one) => [
      `${one.key.namespace}/${one.key.name}`,
      one.keptBy,
      one.process,
    ]);
  };
  const attached = ["attached play", "process 1"];
  assert.deepEqual(await list(), {
    isSupervisorAlive: false,
    plays: [
      {
        ...{ id, files: ["d.yaml"], namespaces: ["ns"], workloads: [...names] },
        pods: cri.sandboxes.flatMap(({ config: { metadata } }) => {
          const { namespace = "", name = "", uid = "" } = metadata ?? {};
          const of = { workload: "ns Deployment/d", keptBy: "attached play", process: "process 1" };
          return name === "p" ? [] : [{ key: { namespace, name, uid }, ...of }];
        }),
      },
    ],
    otherPods: [
      {
        key: { namespace: "default", name: "p", uid: "u-1" },
        ...{ workload: "default Pod/p", keptBy: "attached play", process: "process 1" },
      },
    ],
  });

  const server = createServer();
  const bound = await bindUnixSocket(server, store.socketPath);
  t.after(async () => {
    await bound.unlink();
    server.close();
  });
  const supervised = ["supervisor", "process 1"];
  const expected = [
    ["ns/d-0", ...supervised],
    ["ns/d-1", ...supervised],
    ["default/p", ...attached],
  ];
  assert.deepEqual(await keptBy(), expected);
  const claim = await holdClaim(store.directory, names);
  assert.deepEqual((await keptBy())[0], ["ns/d-0", ...attached]);
  await claim.release();

  for (const [owner, is] of [
    ["2.of-a-dead-process", "none"],
    ["of-an-earlier-version", "unknown"],
    [undefined, "none"],
  ] as const) {
    if (owner === undefined) await files.removeTree("/state/u-1/owner");
    else await files.replaceFile("/state/u-1/owner", owner);
    assert.deepEqual((await keptBy())[2], ["default/p", is, undefined]);
  }
  cri.sandboxes.length = 0;
  assert.deepEqual((await keptBy()).slice(0, 2), expected.slice(0, 2), "their containers are gone");
  assert.deepEqual(reports, []);
});
