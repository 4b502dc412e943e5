import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { toListedContainer, toSnapshot } from "../../../src/shim/engine/container-snapshot.js";
import { fullContainer } from "./full-answers.js";

describe("toSnapshot()", () => {
  const minimal = { Id: "a".repeat(64) };

  test("of annotations only the properties of a systemd scope are kept", () => {
    const snapshot = (annotations?: object) =>
      toSnapshot({ ...minimal, HostConfig: { Annotations: annotations } });
    const annotations = { "org.systemd.property.MemoryHigh": "uint64 5", "a.b/c": "d" };
    assert.deepEqual(snapshot(annotations).scopeProperties, { MemoryHigh: "uint64 5" });
    assert.equal("scopeProperties" in snapshot({ "a.b/c": "d" }), false);
    assert.equal("scopeProperties" in snapshot(), false);
  });

  test("a full answer is read, in the shape of API 1.41 and in that of 1.52", () => {
    const expected = {
      id: "a".repeat(64),
      name: "k8s_POD_x",
      labels: { a: "b" },
      created: 1714979289123456789n,
      state: {
        status: "exited",
        running: false,
        pid: 0,
        exitCode: 137,
        oomKilled: true,
        error: "boom",
        started: 1714979290000000000n,
        finished: 1714979291500000000n,
      },
      imageId: "sha256:feed",
      imageName: "busybox:1",
      programBytes: 7,
      user: "1:2",
      tty: true,
      openStdin: true,
      stdinOnce: true,
      stopSignal: "SIGQUIT",
      mounts: [
        { type: "bind", source: "/s", destination: "/t", readOnly: true, propagation: "rslave", name: "" },
        { type: "volume", source: "/x", destination: "/v", readOnly: false, propagation: "", name: "v" },
      ],
      requestedMounts: [
        requested({
          type: "bind",
          source: "/s",
          target: "/t",
          readOnly: true,
          recursiveReadOnly: true,
          propagation: "rslave",
        }),
        requested({ type: "image", source: "busybox", target: "/i", imageSubPath: "bin" }),
        requested({ type: "bind", source: "/a", target: "/b", readOnly: true, propagation: "rshared" }),
        requested({ type: "volume", source: "volume", target: "/v" }),
        requested({ type: "bind", source: "/c", target: "/d" }),
      ],
      logPath: "/log",
      logDriver: "local",
      logOptions: { "max-size": "10m" },
      resolvConfPath: "/resolv.conf",
      networkMode: "container:x",
      portBindings: [
        { port: "80/tcp", hostIp: "::1", hostPort: "8080" },
        { port: "80/tcp", hostIp: "", hostPort: "8081" },
      ],
      pidMode: "host",
      ipcMode: "shareable",
      cgroupParent: "/kubepods",
      runtime: "runc",
      groupAdd: ["5"],
      privileged: true,
      resources: {
        cpuPeriod: 1,
        cpuQuota: -1,
        cpuShares: 3,
        memory: 4,
        memorySwap: -1,
        cpusetCpus: "0",
        cpusetMems: "1",
        oomScoreAdj: -998,
      },
      addresses: ["10.0.0.2", "fd00::1", "fd00::2"],
      graphDriver: { UpperDir: "/up" },
    };
    assert.deepEqual(toSnapshot(fullContainer), expected);
    const older = {
      ...fullContainer,
      NetworkSettings: { ...fullContainer.NetworkSettings, IPAddress: "10.0.0.2" },
    };
    assert.deepEqual(toSnapshot(older), expected);
    assert.deepEqual(toSnapshot({ ...fullContainer, GraphDriver: null }).graphDriver, {});
  });

  function requested(mount: object): object {
    const none = {
      type: "",
      source: "",
      target: "",
      readOnly: false,
      recursiveReadOnly: false,
      propagation: "",
      imageSubPath: "",
    };
    return { ...none, ...mount };
  }

  test("what Go leaves out or nulls is empty, and never is 0", () => {
    const snapshot = toSnapshot({
      ...minimal,
      State: { Status: "created", StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z" },
      Config: { Labels: null },
      HostConfig: { Mounts: null, Binds: null, GroupAdd: null },
      Mounts: null,
      NetworkSettings: { Networks: null },
      GraphDriver: { Data: null },
    });
    assert.deepEqual(
      [snapshot.labels, snapshot.mounts, snapshot.requestedMounts, snapshot.groupAdd, snapshot.addresses],
      [{}, [], [], [], []],
    );
    assert.deepEqual([snapshot.state.started, snapshot.state.finished, snapshot.graphDriver], [0n, 0n, {}]);
  });

  test("a label named __proto__ is a label", () => {
    const answer: unknown = JSON.parse('{"Id":"x","Config":{"Labels":{"__proto__":"p","n":1}}}');
    assert.deepEqual(Object.entries(toSnapshot(answer).labels), [["__proto__", "p"]]);
  });

  test("a status that is not known follows from whether it runs", () => {
    assert.equal(toSnapshot({ ...minimal, State: { Status: "new", Running: true } }).state.status, "running");
    assert.equal(toSnapshot({ ...minimal, State: { Status: "new" } }).state.status, "exited");
  });

  for (const answer of [null, [], "x", {}, { Id: 5 }]) {
    test(`${JSON.stringify(answer)} describes no container`, () => {
      assert.throws(() => toSnapshot(answer), { kind: "unknown" });
    });
  }
});

test("toListedContainer() reads an entry of the list", () => {
  const entry = {
    Id: "x",
    State: "running",
    Labels: { a: "b" },
    Names: ["/n", "/m/n"],
    Created: 1_700_000_000,
    Image: "busybox",
    ImageID: "sha256:1a",
  };
  assert.deepEqual(toListedContainer(entry), {
    id: "x",
    status: "running",
    labels: { a: "b" },
    names: ["n", "m/n"],
    created: 1_700_000_000_000_000_000n,
    imageId: "sha256:1a",
    imageName: "busybox",
  });
});
