import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ContainerState,
  MountPropagation,
  Signal,
  type ContainerFilter,
} from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { toContainer } from "../../../../src/domain/container.js";
import { statusOf } from "../../../../src/shim/cri/container/container-status.js";
import { rejectsWith } from "../../../support/refusals.js";
import { containerSecurity, podMetadata, runRequest } from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { containerSnapshot, idOf } from "../../../fakes/snapshots.js";
import { reopenContainerLog } from "../../../../src/shim/cri/container/reopen-container-log.js";
import { madeKeysLabel } from "../../../../src/domain/labels.js";
import type { ContainerLogs } from "../../../../src/shim/ports/container-logs.js";

const shim = shimOfEachTest();

const { CONTAINER_CREATED, CONTAINER_RUNNING, CONTAINER_EXITED, CONTAINER_UNKNOWN } = ContainerState;
const status = async (shim: TestShim, id: string) => {
  const answer = await shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call());
  assert.ok(answer.status);
  return answer.status;
};

describe("listContainers()", () => {
  test("filters by id, prefix, sandbox, state and labels, all at once", async () => {
    const sandbox = await shim.runSandbox();
    const other = await shim.runSandbox(runRequest({ metadata: podMetadata("db") }));
    const a = await shim.runContainer(sandbox, "a");
    const labels = { tier: "back" };
    const b = await shim.createContainer(sandbox, { metadata: { name: "b", attempt: 0 }, labels });
    const c = await shim.runContainer(other, "c");
    shim.engine.containers.create("foreign", { Image: "busybox", Labels: {}, HostConfig: {} });
    const table: readonly (readonly [Partial<ContainerFilter>, readonly string[]])[] = [
      [{}, [a, b, c]],
      [{ id: b }, [b]],
      [{ id: c.slice(0, 13) }, [c]],
      [{ id: sandbox }, []],
      [{ pod_sandbox_id: sandbox }, [a, b]],
      [{ pod_sandbox_id: other.slice(0, 13) }, [c]],
      [{ state: { state: CONTAINER_RUNNING } }, [a, c]],
      [{ state: { state: CONTAINER_CREATED } }, [b]],
      [{ label_selector: { tier: "back" } }, [b]],
      [{ label_selector: { tier: "front" }, pod_sandbox_id: sandbox }, [a]],
      [{ label_selector: { tier: "back" }, state: { state: CONTAINER_RUNNING } }, []],
    ];
    shim.world.journal.clear();
    for (const [filter, expected] of table) {
      const whole = { id: "", state: null, pod_sandbox_id: "", label_selector: {}, ...filter };
      const containers = await shim.rpcs.ListContainers({ filter: whole }, shim.call());
      const found = containers.map(({ id }) => id);
      assert.deepEqual(found, expected, JSON.stringify(filter));
    }
    assert.deepEqual(shim.world.journal.names(), [], "no request");
  });
});

describe("containerStatus()", () => {
  test("of a running container", async () => {
    const id = await shim.runContainer();
    const answer = await status(shim, id.slice(0, 12));
    assert.equal(answer.id, id);
    assert.deepEqual(answer.metadata, { name: "main", attempt: 0 });
    assert.equal(answer.state, CONTAINER_RUNNING);
    assert.ok(BigInt(answer.started_at ?? 0) > BigInt(answer.created_at ?? 0));
    assert.deepEqual([answer.finished_at, answer.exit_code, answer.reason], ["0", 0, ""]);
    assert.equal(answer.image?.image, "busybox:latest");
    assert.equal(answer.image_ref, `docker-pullable://busybox@sha256:${"b".repeat(64)}`);
    assert.match(answer.image_id ?? "", /^sha256:/);
    assert.equal(answer.log_path, "/var/log/pods/default_web_uid-1/main/0.log");
    assert.deepEqual([answer.labels, answer.annotations], [{ tier: "front" }, { hash: "1" }]);
    assert.equal(answer.stop_signal, Signal.SIGNAL_SIGTERM);
    assert.deepEqual(answer.user?.linux, { uid: "0", gid: "0", supplemental_groups: ["0", "10"] });
  });

  const endings: readonly (readonly [string, (shim: TestShim, id: string) => unknown, object])[] = [
    ["created", () => undefined, { state: CONTAINER_CREATED, started_at: "0", finished_at: "0", reason: "" }],
    [
      "ended with code 3",
      async (shim, id) => {
        await shim.startContainer(id);
        shim.engine.containers.exit(id, 3);
      },
      { state: CONTAINER_EXITED, exit_code: 3, reason: "Error" },
    ],
    [
      "never able to run",
      ({ engine }, id) => engine.containers.failStart(id, "no such file"),
      { state: CONTAINER_EXITED, exit_code: 127, reason: "ContainerCannotRun", message: "no such file" },
    ],
    ["gone", ({ engine }, id) => engine.containers.setStatus(id, "removing"), { state: CONTAINER_UNKNOWN }],
  ];
  for (const [what, happen, expected] of endings) {
    test(`of a container that is ${what}`, async () => {
      const id = await shim.createContainer(await shim.runSandbox());
      await happen(shim, id);
      await shim.sync.refresh(id);
      const answer = await status(shim, id);
      for (const [key, value] of Object.entries(expected))
        assert.equal(answer[key as keyof typeof answer], value, key);
      if (answer.state === CONTAINER_EXITED) {
        // Kubelets want both times of an ended container.
        assert.ok(BigInt(answer.finished_at ?? 0) > 0n && BigInt(answer.started_at ?? 0) > 0n);
      }
    });
  }

  test("asks for the image once, and does without it when it is gone", async () => {
    const id = await shim.runContainer();
    await status(shim, id);
    shim.world.journal.clear();
    await status(shim, id);
    assert.deepEqual(shim.world.journal.names(), []);
    shim.engine.images.lose("busybox");
    shim.services.images.cache.forget();
    const answer = await status(shim, id);
    assert.equal(answer.image?.image, "busybox");
    assert.equal(answer.image_ref, `docker://${answer.image_id ?? ""}`);
  });

  test("succeeds although the image cannot be inspected", async () => {
    const id = await shim.runContainer();
    shim.services.images.cache.forget();
    shim.engine.failNext("inspectImage", new ShimError("unknown", "engine is confused"));
    assert.equal((await status(shim, id)).state, CONTAINER_RUNNING);
  });

  test("shows the user that the container runs as", async () => {
    const ids = {
      run_as_user: { value: "1000" },
      run_as_group: { value: "2000" },
      supplemental_groups: ["3000"],
    };
    const linux = { resources: null, security_context: containerSecurity(ids) };
    const id = await shim.createContainer(await shim.runSandbox(), { linux });
    const { user } = await status(shim, id);
    assert.deepEqual(user?.linux, { uid: "1000", gid: "2000", supplemental_groups: ["2000", "3000"] });
  });

  test("is NOT_FOUND for unknown ids, sandboxes and foreign containers", async () => {
    const sandbox = await shim.runSandbox();
    const foreign = shim.engine.containers.create("foreign", {
      Image: "busybox",
      Labels: {},
      HostConfig: {},
    });
    for (const id of ["f".repeat(64), sandbox, foreign]) await rejectsWith(status(shim, id), "notFound");
  });

  test("says more when it is asked to", async () => {
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    const { info } = await shim.rpcs.ContainerStatus({ container_id: id, verbose: true }, shim.call());
    const details = JSON.parse(info?.["info"] ?? "") as Record<string, unknown>;
    const { pid } = shim.engine.containers.get(id).state;
    assert.deepEqual([details["sandboxID"], details["pid"]], [sandbox, pid]);
  });
});

test("statusOf() shows mounts by the paths of the request", () => {
  const bind = { type: "bind", source: "/real/path", destination: "/data", readOnly: true };
  const volume = { type: "volume", source: "/docker/volumes/v/_data", destination: "/v", readOnly: false };
  const mounts = [
    { ...bind, propagation: "rslave", name: "" },
    { ...volume, propagation: "", name: "v" },
  ];
  // Docker cleans the path of the mount, but not that of the request.
  const requested = { type: "bind", source: "/link/path", target: "/data/", readOnly: true };
  const options = { recursiveReadOnly: true, propagation: "rslave", imageSubPath: "" };
  const snapshot = containerSnapshot(idOf("c1"), idOf("5a"), {
    mounts,
    requestedMounts: [{ ...requested, ...options }],
  });
  const container = toContainer(snapshot, undefined);
  assert.ok(container);
  const records = { containers: { get: () => undefined } as never } as never;
  const shown = statusOf(container, { image: undefined, userFiles: undefined }, { records }).mounts;
  const { PROPAGATION_HOST_TO_CONTAINER: slave, PROPAGATION_PRIVATE: none } = MountPropagation;
  const [data, v] = [
    { container_path: "/data/", host_path: "/link/path", readonly: true },
    { container_path: "/v", host_path: "/docker/volumes/v/_data", readonly: false },
  ];
  assert.deepEqual(shown, [
    { ...data, propagation: slave, recursive_read_only: true },
    { ...v, propagation: none, recursive_read_only: false },
  ]);
  const oci = { mountOptions: { "/v": ["noexec", "rro"] } };
  const cgroup = { unified: {}, hugepages: [] };
  const made = { records: { containers: { get: () => ({ oci, cgroup }) } as never } as never };
  const [, ofRuntime] = statusOf(container, { image: undefined, userFiles: undefined }, made).mounts ?? [];
  assert.equal(ofRuntime?.recursive_read_only, true);
});

/** What the handler asks of the logs, where no container has a record. */
async function reopen(shim: TestShim, id: string): Promise<readonly string[]> {
  const calls: string[] = [];
  const used: Partial<ContainerLogs> = {
    ownerOf: () => undefined,
    convert: (snapshot, { directory, path }) => {
      calls.push(`convert ${snapshot.id} ${directory} ${path}`);
      return Promise.resolve();
    },
    reopen: (containerId) => {
      calls.push(`reopen ${containerId}`);
      return Promise.resolve();
    },
  };
  const services = { ...shim.services, logs: used as ContainerLogs };
  await reopenContainerLog({ container_id: id }, services, shim.call("ReopenContainerLog"));
  return calls;
}

describe("reopenContainerLog()", () => {
  test("never converts the log of a container of this program, also where it has no record", async () => {
    await using shim = await TestShim.start();
    const id = await shim.runContainer();
    assert.deepEqual(await reopen(shim, id), [`reopen ${id}`]);
  });

  test("converts the log of a container that dockershim or cri-dockerd made", async () => {
    await using shim = await TestShim.start();
    const sandbox = await shim.runSandbox();
    const own = shim.engine.containers.get(await shim.runContainer(sandbox));
    // They give the same labels but this one.
    const { [madeKeysLabel]: _keys, ...labels } = own.body.Labels;
    const name = own.name.replace(/_main_/, "_legacy_");
    const id = shim.engine.containers.create(name, { ...own.body, Labels: labels });
    shim.engine.containers.start(id);
    await shim.sync.refresh(id);
    const directory = "/var/log/pods/default_web_uid-1";
    assert.deepEqual(await reopen(shim, id), [`convert ${id} ${directory}/main ${directory}/main/0.log`]);
  });
});
