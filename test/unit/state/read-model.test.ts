import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, type ErrorKind } from "../../../src/lib/errors.js";
import type { SandboxRecord } from "../../../src/domain/sandbox.js";
import { ReadModel, type Wanted } from "../../../src/shim/state/read-model.js";
import { containerSnapshot, idOf, listedOf, sandboxSnapshot, snapshotOf } from "../../fakes/snapshots.js";

const sandboxId = idOf("5a");

const podRecord: SandboxRecord = {
  ...{ namespace: "default", name: "my_pod", uid: "uid-1", attempt: 0, phase: "ready", runtimeHandler: "" },
  namespaces: { network: 0, pid: 1, ipc: 0 },
};

function modelOf(...snapshots: readonly ReturnType<typeof snapshotOf>[]): ReadModel {
  const model = new ReadModel(() => undefined);
  for (const snapshot of snapshots) model.put(snapshot);
  return model;
}

function throwsKind(work: () => unknown, kind: ErrorKind): void {
  assert.throws(work, (error) => isKind(error, kind));
}

const sandboxIds = (model: ReadModel): readonly string[] => [...model.sandboxes()].map(({ id }) => id);

describe("ReadModel lookups", () => {
  const model = modelOf(
    sandboxSnapshot(idOf("5a1")),
    sandboxSnapshot(idOf("5a2")),
    containerSnapshot(idOf("5a3"), idOf("5a1")),
    containerSnapshot(idOf("c1"), idOf("5a1")),
    containerSnapshot(idOf("c2"), idOf("5a1")),
  );

  test("find by an unambiguous prefix; other kinds do not make one ambiguous", () => {
    assert.equal(model.sandbox("5a1")?.id, idOf("5a1"));
    assert.equal(model.container("5a")?.id, idOf("5a3"));
  });

  test("refuse an ambiguous prefix as invalid, and ids that are unknown or of the other kind as not found", () => {
    throwsKind(() => model.sandbox("5a"), "invalid");
    throwsKind(() => model.requireContainer("c"), "invalid");
    for (const id of ["", `${idOf("5a1")}0`, "ffff"])
      assert.deepEqual([model.sandbox(id), model.container(id)], [undefined, undefined]);
    assert.equal(model.sandbox(idOf("c1")) ?? model.container(idOf("5a1")), undefined);
    throwsKind(() => model.requireSandbox(idOf("c1")), "notFound");
    throwsKind(() => model.requireContainer(idOf("5a1")), "notFound");
  });

  test("find an exact id before longer ones that begin with it", () => {
    const odd = modelOf(sandboxSnapshot("ab"), sandboxSnapshot("abc"));
    assert.equal(odd.sandbox("ab")?.id, "ab");
  });
});

describe("ReadModel contents", () => {
  test("reads container names with underscores by the identity of the sandbox, also when that is known later", () => {
    const model = new ReadModel(() => podRecord);
    const name = "k8s_my_main_my_pod_default_uid-1_2";
    const labels = { "io.kubernetes.container.name": "wrong" };
    model.put(containerSnapshot(idOf("c1"), sandboxId, { name, labels }));
    assert.deepEqual(model.container("c1")?.identity, { name: "wrong", attempt: 2 });
    model.put(sandboxSnapshot(sandboxId));
    assert.deepEqual(model.container("c1")?.identity, { name: "my_main", attempt: 2 });
  });

  test("keeps nothing old of what cannot be told to be of a pod any more", () => {
    const model = modelOf(sandboxSnapshot(sandboxId), containerSnapshot(idOf("c1"), sandboxId));
    const heard: unknown[] = [];
    model.onChange(({ id, after }) => heard.push([id, after]));
    model.put(containerSnapshot(idOf("c1"), sandboxId, { name: "debug-me" }));
    assert.deepEqual(model.ids(), [sandboxId]);
    assert.deepEqual(model.containersOf(sandboxId), []);
    assert.deepEqual(heard, [[idOf("c1"), undefined]]);
  });

  test("recordChanged() flips READY without the engine", () => {
    let phase: SandboxRecord["phase"] = "creating";
    const model = new ReadModel(() => ({ ...podRecord, phase }));
    model.put(sandboxSnapshot(sandboxId));
    for (phase of ["creating", "ready", "stopped"] as const) {
      model.recordChanged(sandboxId);
      assert.equal(model.sandbox(sandboxId)?.ready, phase === "ready");
    }
    model.recordChanged(idOf("ff"));
    assert.deepEqual(model.ids(), [sandboxId]);
  });

  test("an entity without a change stays the same object", () => {
    const model = modelOf(sandboxSnapshot(sandboxId), containerSnapshot(idOf("c1"), sandboxId));
    const [before] = model.containers();
    model.put(containerSnapshot(idOf("c2"), sandboxId));
    model.put(sandboxSnapshot(sandboxId));
    assert.equal(model.container("c1"), before);
  });
});

describe("ReadModel, asked for what is wanted", () => {
  const [a1, a2, c1, c2, c3] = [idOf("a1"), idOf("a2"), idOf("c1"), idOf("c2"), idOf("c3")];
  const uid = (value: string) => ({ "io.kubernetes.pod.uid": value });
  const [u1, u2] = [{ labels: uid("u1") }, { labels: uid("u2") }];
  const all = (): ReadModel => {
    const own = [c1, c2].map((id) => containerSnapshot(id, a1, u1));
    return modelOf(sandboxSnapshot(a1, u1), sandboxSnapshot(a2, u2), ...own, containerSnapshot(c3, a2, u2));
  };
  const short = (found: Iterable<{ readonly id: string }>): string =>
    [...found].map(({ id }) => id.slice(0, 2)).join(" ");

  const cases: readonly (readonly [what: string, wanted: Wanted, sandboxes: string, containers: string])[] = [
    ["nothing in particular", { id: "", labels: {} }, "a1 a2", "c1 c2 c3"],
    ["a prefix", { id: "c", labels: {} }, "a1 a2", "c1 c2 c3"],
    ["an id of a container", { id: c2, labels: {} }, "", "c2"],
    ["an id of a sandbox", { id: a2, labels: {} }, "a2", ""],
    ["an id that is not there", { id: idOf("ee"), labels: {} }, "", ""],
    ["a sandbox", { id: "", sandboxId: a1, labels: {} }, "a1 a2", "c1 c2"],
    ["a prefix of a sandbox", { id: "", sandboxId: "a1", labels: {} }, "a1 a2", "c1 c2 c3"],
    ["a pod's uid", { id: "", labels: uid("u2") }, "a2", "c3"],
    ["another label", { id: "", labels: { app: "x" } }, "a1 a2", "c1 c2 c3"],
    ["a uid that is not there", { id: "", labels: uid("u3") }, "", ""],
  ];
  test("yields no more than the index has", () => {
    for (const [what, wanted, sandboxes, found] of cases) {
      const model = all();
      assert.equal(short(model.sandboxEntries(wanted)), sandboxes, what);
      assert.equal(short(model.containerEntries(wanted)), found, what);
    }
  });

  test("indexes forget what is gone and follow what is replaced", () => {
    const model = all();
    model.delete(c1);
    model.delete(a2);
    const replaced = containerSnapshot(c2, a1, u1);
    model.put(replaced);
    assert.equal(short(model.sandboxEntries({ id: "", labels: uid("u2") })), "");
    const [container, ...others] = model.containers({ id: "", labels: uid("u1") });
    assert.equal(container?.snapshot, replaced);
    assert.deepEqual(others, []);
    assert.equal(short(model.containersOf(a1)), "c2");
  });
});

describe("ReadModel.hide()", () => {
  const name = "k8s_POD_web_default_uid-1_0";

  test("keeps the sandbox out of lists, under an alternative name, too, until it is disposed", () => {
    const model = modelOf();
    {
      using hidden = model.hide(name);
      model.put(sandboxSnapshot(sandboxId, { name: `${name}_0badcafe` }));
      assert.deepEqual(sandboxIds(model), [], "before its id is known");
      hidden.created(sandboxSnapshot(sandboxId));
      assert.deepEqual(sandboxIds(model), []);
      assert.equal(model.sandbox(sandboxId)?.id, sandboxId, "it can still be asked for by id");
    }
    assert.deepEqual(sandboxIds(model), [sandboxId]);
  });

  test("leaves a sandbox visible that had the name before", () => {
    const others = sandboxSnapshot(idOf("01d2"), { name: `${name}_0badcafe` });
    const model = modelOf(sandboxSnapshot(idOf("01d"), { name }), others);
    using hidden = model.hide(name);
    model.put(sandboxSnapshot(idOf("01d"), { name }));
    model.put(sandboxSnapshot(sandboxId, { name: `${name}_deadbeef` }));
    hidden.created(sandboxSnapshot(sandboxId));
    assert.deepEqual(sandboxIds(model), [idOf("01d"), idOf("01d2")]);
  });

  test("has() knows ids that are just being made, and forgets all of them afterwards", () => {
    const model = modelOf();
    const known = (): readonly boolean[] => ["a1", "a2", "a3"].map((id) => model.has(idOf(id)));
    {
      using hidden = model.hide(name);
      hidden.created(sandboxSnapshot(idOf("a1")));
      hidden.created(sandboxSnapshot(idOf("a2")));
      assert.deepEqual(known(), [true, true, false]);
    }
    assert.deepEqual(known(), [false, false, false]);
  });
});

describe("ReadModel with pending entries", () => {
  const entries = (model: ReadModel): readonly string[] => {
    const sandboxes = [...model.sandboxEntries()].map(({ id, ready }) => [id, ready ? "ready" : "not ready"]);
    const containers = [...model.containerEntries()].map(({ id, state }) => [id, state]);
    return [...sandboxes, ...containers].map(([id, state]) => `${String(id).slice(0, 2)} ${String(state)}`);
  };
  const container = containerSnapshot(idOf("c1"), sandboxId, { state: { status: "exited", running: false } });

  function pending(...snapshots: readonly ReturnType<typeof snapshotOf>[]): ReadModel {
    const model = modelOf();
    for (const snapshot of snapshots) model.expect(listedOf(snapshot));
    return model;
  }

  test("has no entity for them, and does not call them unknown", () => {
    const model = pending(sandboxSnapshot(sandboxId), container);
    assert.deepEqual([model.sandbox(sandboxId), model.container("c1")], [undefined, undefined]);
    assert.deepEqual([model.sandboxId("5a"), model.containerId("c1")], [sandboxId, idOf("c1")]);
    throwsKind(() => model.requireSandbox("5a"), "unavailable");
    throwsKind(() => model.requireContainer("c1"), "unavailable");
  });

  test("refuses a prefix that a known and a pending one share", () => {
    const model = pending(sandboxSnapshot(idOf("5a1")));
    model.put(sandboxSnapshot(idOf("5a2")));
    throwsKind(() => model.sandbox("5a"), "invalid");
  });

  test("replaces them by what an inspect says, and forgets them when they are gone", () => {
    const model = pending(sandboxSnapshot(sandboxId), container);
    model.put(container);
    model.delete(sandboxId);
    assert.deepEqual(model.ids(), [idOf("c1")]);
    assert.deepEqual(entries(model), ["c1 2"]);
    assert.equal(model.pendingIds().length, 0);
  });

  test("keeps what was read before, as stale until the next inspect", () => {
    const model = modelOf(sandboxSnapshot(sandboxId));
    model.expect(listedOf(sandboxSnapshot(sandboxId, { state: { status: "exited", running: false } })));
    assert.deepEqual([entries(model), model.isStale(sandboxId)], [["5a ready"], true]);
    model.put(sandboxSnapshot(sandboxId));
    assert.equal(model.isStale(sandboxId), false);
    model.failed(sandboxId);
    assert.equal(model.isStale(sandboxId), true);
  });

  test("neither lists entries without a known pod, nor keeps unmanaged containers", () => {
    const model = pending(sandboxSnapshot(sandboxId, { name: "odd" }), snapshotOf({ id: idOf("f0") }));
    assert.deepEqual([entries(model), model.ids()], [[], [sandboxId]]);
  });

  test("lets the record of a sandbox speak, also when it changes", () => {
    let phase: SandboxRecord["phase"] = "ready";
    const model = new ReadModel(() => ({ ...podRecord, phase }));
    model.expect(listedOf(sandboxSnapshot(sandboxId, { name: "k8s_POD_my_pod_default_u_0" })));
    assert.equal([...model.sandboxEntries()][0]?.pod.name, "my_pod");
    phase = "stopped";
    model.recordChanged(sandboxId);
    assert.deepEqual(entries(model), ["5a not ready"]);
  });

  test("parses names of pending containers again when their sandbox becomes known", () => {
    const name = "k8s_my_main_web_default_uid-1_2";
    const model = pending(containerSnapshot(idOf("c1"), sandboxId, { name }));
    assert.deepEqual(entries(model), [], "without its pod the name cannot be parsed");
    model.put(sandboxSnapshot(sandboxId));
    assert.deepEqual([...model.containerEntries()][0]?.identity, { name: "my_main", attempt: 2 });
  });

  test("hides one that is just being made, but none that had the name before", () => {
    const name = "k8s_POD_web_default_uid-1_0";
    const model = pending(sandboxSnapshot(idOf("01"), { name }));
    using _hidden = model.hide(name);
    model.expect(listedOf(sandboxSnapshot(sandboxId, { name })));
    assert.deepEqual(entries(model), ["01 ready"]);
  });
});
