import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { NodeFacts } from "../../../../src/domain/node-facts.js";
import {
  NamespaceMode,
  SupplementalGroupsPolicy,
  type LinuxContainerSecurityContext,
  type Mount,
} from "../../../../src/domain/cri.js";
import { nameOf } from "../../../fakes/journal.js";
import { rejectsWith } from "../../../support/refusals.js";
import {
  containerResources,
  containerSecurity,
  hugepages,
  imageSpec,
  namespaceOptions,
  podMetadata,
  runRequest,
} from "../../../fakes/requests.js";
import { mount } from "../../plan/builders.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { nodeFacts } from "../../../fakes/node-facts.js";
import { ociRuntimeName } from "../../../../src/domain/oci-changes.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const name = "k8s_main_web_default_uid-1_0";
const runc = { name: "runc", kind: "runc", recursiveReadOnly: false } as const;

describe("createContainer()", () => {
  test("makes a container that is in the list when the call returns", async () => {
    shim.engine.events$.policy = () => [];
    const sandbox = await shim.runSandbox();
    const id = await shim.createContainer(sandbox);
    assert.deepEqual(await shim.listedContainers(), { [id]: 0 });
    assert.equal(shim.engine.containers.get(id).name, name);
    assert.equal(shim.engine.containers.get(id).body.Labels["io.kubernetes.sandbox.id"], sandbox);
  });

  for (const [what, config, changes, field] of [
    ["argument", {}, { command: [], args: ["é".repeat(2048)] }, /config\.args\[0\]: names a program of/],
    ["image", { Entrypoint: ["x".repeat(4096)] }, { command: [], args: ["a"] }, /config\.image: names a/],
  ] as const) {
    test(`refuses a program that the kernel does not start and the ${what} names, and leaves nothing behind`, async () => {
      const sandbox = await shim.runSandbox();
      shim.engine.images.add({ tags: ["busybox:latest"], snapshot: { config } });
      await rejectsWith(shim.createContainer(sandbox, changes), "invalid", field);
      assert.deepEqual(shim.engine.containers.ids, [sandbox]);
      assert.deepEqual(await shim.listedContainers(), {});
    });
  }

  test("takes an argument longer than a path that is not the program, and a prefix of the sandbox's id", async () => {
    const sandbox = await shim.runSandbox();
    const config = { command: ["cat"], args: ["x".repeat(4096)] };
    const id = await shim.createContainer(sandbox.slice(0, 12), config);
    assert.equal(shim.engine.containers.get(id).body.Labels["io.kubernetes.sandbox.id"], sandbox);
  });

  describe("with what only the OCI runtime in front of runc can do", () => {
    const runtimes = [...nodeFacts().runtimes, { ...runc, name: ociRuntimeName, recursiveReadOnly: true }];
    const capabilities = (names: readonly string[]) => ({
      linux: {
        resources: null,
        security_context: containerSecurity({
          capabilities: {
            ...{ add_capabilities: ["KILL"], drop_capabilities: [] },
            add_ambient_capabilities: names,
          },
        }),
      },
    });
    const cdiContent = {
      kind: "v.com/gpu",
      containerEdits: { hooks: [{ hookName: "createRuntime", path: "/bin/hook" }] },
      devices: [
        {
          name: "0",
          containerEdits: { mounts: [{ hostPath: "/lib/g", containerPath: "/lib/g", options: ["nodev"] }] },
        },
      ],
    };
    const unified = { "memory.high": "1", "memory.oom.group": "1" };
    const rows = {
      "ambient capabilities": {
        config: capabilities(["net_raw", "CAP_KILL"]),
        oci: { ambientCapabilities: ["CAP_NET_RAW", "CAP_KILL"] },
        refusal: /security_context\.capabilities\.add_ambient_capabilities: Docker cannot set ambient/,
        body: { CapAdd: ["KILL", "CAP_NET_RAW"] },
      },
      "mount options": {
        config: {
          mounts: [
            mount({ host_path: "/srv", container_path: "/a/" }),
            mount({ host_path: "/srv", container_path: "/b/../c", mount_options: ["noexec", "nodev"] }),
          ],
        },
        oci: { mountOptions: { "/c": ["noexec", "nodev"] } },
        refusal:
          /config\.mounts\[1\]\.mount_options "noexec,nodev": Docker takes no options for mounts, and the engine has no/,
        body: {},
      },
      "recursive read-only mounts before API 1.44": {
        config: {
          mounts: [
            mount({ host_path: "/srv", container_path: "/a/", readonly: true, recursive_read_only: true }),
          ],
        },
        oci: { mountOptions: { "/a": ["rro"] } },
        refusal:
          /^RROUnsupported: .*config\.mounts\[0\]\.recursive_read_only of "\/a\/": .*and the engine has no/,
        body: {},
      },
      "CDI devices with hooks and other mount options": {
        config: {
          CDI_devices: [{ name: "v.com/gpu=0" }],
          // The device lies over it.
          mounts: [mount({ host_path: "/srv", container_path: "/lib/g", readonly: true })],
        },
        oci: {
          hooks: { createRuntime: [{ path: "/bin/hook" }] },
          mounts: [{ destination: "/lib/g", type: "bind", source: "/lib/g", options: ["rbind", "nodev"] }],
        },
        refusal:
          /CDI device "v\.com\/gpu=0": this engine cannot apply hooks .*, and the engine has no runtime/,
        body: { Mounts: undefined },
      },
      "limits before the first instruction": {
        config: {
          linux: {
            security_context: null,
            resources: containerResources({ unified, hugepage_limits: [{ page_size: "2MB", limit: "1" }] }),
          },
        },
        oci: { limits: ["unified", "hugepages"] },
        refusal: undefined,
        body: {},
      },
    } as const;

    async function start(facts: Partial<NodeFacts>): Promise<TestShim> {
      const started = await TestShim.start({ facts: { cgroupVersion: 2, ...facts } });
      started.world.host.cdiSpecs = [{ path: "/etc/cdi/v.json", priority: 0, content: cdiContent }];
      started.engine.startFailure = started.world.ociRuntimeServer.startFailure;
      return started;
    }

    for (const [what, { config, oci, refusal, body }] of Object.entries(rows)) {
      test(`${what}: planned for the runtime, and kept in the record`, async () => {
        await using shim = await start({ runtimes });
        const id = await shim.createContainer(await shim.runSandbox(), config);
        const { HostConfig } = shim.engine.containers.get(id).body;
        assert.equal(HostConfig.Runtime, ociRuntimeName);
        for (const [key, value] of Object.entries(body))
          assert.deepEqual(HostConfig[key as keyof typeof HostConfig], value);
        assert.deepEqual(shim.services.records.containers.get(id)?.oci, oci);
      });

      test(`${what}: ${refusal === undefined ? "in the old way" : "refused"} where the engine does not have it`, async () => {
        await using shim = await start({});
        const sandbox = await shim.runSandbox();
        const created = shim.createContainer(sandbox, config);
        if (refusal !== undefined) {
          await rejectsWith(created, "unsupported", refusal);
          assert.deepEqual(shim.engine.containers.ids, [sandbox]);
          return;
        }
        const id = await created;
        assert.equal(shim.engine.containers.get(id).body.HostConfig.Runtime, undefined);
        assert.equal(shim.services.records.containers.get(id)?.oci, undefined);
      });
    }

    test("is refused where it does not work, and in pods of another runtime", async () => {
      await using shim = await start({
        runtimes: [...runtimes, { name: "kata", kind: "ownShim", recursiveReadOnly: false }],
      });
      const { config } = rows["ambient capabilities"];
      const kata = await shim.runSandbox(runRequest({}, "kata"));
      await rejectsWith(
        shim.createContainer(kata, config),
        "unsupported",
        /runtime "kata" is not the engine's runc/,
      );
      await using other = await start({ runtimes });
      other.world.ociRuntimeServer.isAsked = false;
      const sandbox = await other.runSandbox();
      await rejectsWith(other.createContainer(sandbox, config), "unsupported", /without asking this program/);
    });

    test("leaves containers alone that need nothing of it", async () => {
      await using shim = await start({ runtimes });
      const usual = containerResources({
        unified: { "memory.oom.group": "1", "memory.swap.max": "0" },
        hugepage_limits: [{ page_size: "2MB", limit: "0" }],
      });
      const id = await shim.createContainer(await shim.runSandbox(), {
        linux: { security_context: null, resources: usual },
      });
      assert.equal(shim.engine.containers.get(id).body.HostConfig.Runtime, undefined);
      assert.deepEqual(shim.world.journal.names("engine.startContainer").length, 1);
    });

    test("mount options that are none are refused by name", async () => {
      const sandbox = await shim.runSandbox();
      const mounts = [mount({ host_path: "/srv", container_path: "/a", mount_options: ["suid"] })];
      const created = shim.createContainer(sandbox, { mounts });
      await rejectsWith(
        created,
        "invalid",
        /mounts\[0\]\.mount_options "suid": is none of noexec, nosuid, nodev/,
      );
    });
  });

  describe("with a CDI device of an annotation", () => {
    const device = { annotations: { "cdi.k8s.io/v": "v.com/gpu=0" } };
    const edits = { env: ["GPU=0"], deviceNodes: [{ path: "/dev/g0" }] };
    const content = { kind: "v.com/gpu", devices: [{ name: "0", containerEdits: edits }] };
    const start = (facts: Partial<NodeFacts>) =>
      TestShim.start({
        facts,
        prepare: ({ host }) => {
          host.cdiSpecs = [{ path: "/etc/cdi/v.json", priority: 0, content }];
        },
      });

    for (const [what, local] of [
      ["its environment to the container itself", true],
      ["all to an engine on another host", false],
    ] as const) {
      test(`leaves it to the engine, and ${what}`, async () => {
        await using shim = await start({ apiMinor: 51, cdi: true });
        const sandbox = await shim.runSandbox();
        shim.world.host.local = local;
        const id = await shim.createContainer(sandbox, device);
        const { Env = [], HostConfig } = shim.engine.containers.get(id).body;
        assert.deepEqual(HostConfig.DeviceRequests, [{ Driver: "cdi", DeviceIDs: ["v.com/gpu=0"] }]);
        assert.equal(HostConfig.Devices, undefined);
        assert.equal(Env.includes("GPU=0"), local);
      });
    }

    test("applies the whole of it where the engine injects none", async () => {
      await using shim = await start({ apiMinor: 43, cdi: false });
      const id = await shim.createContainer(await shim.runSandbox(), device);
      const { Env, HostConfig } = shim.engine.containers.get(id).body;
      assert.equal(HostConfig.Devices?.[0]?.PathOnHost, "/dev/g0");
      assert.ok(Env?.includes("GPU=0"));
    });

    for (const cdi of [true, false]) {
      test(`refuses what the node does not have, where the engine injects ${cdi ? "it" : "none"}`, async () => {
        await using shim = await start({ apiMinor: 51, cdi });
        const sandbox = await shim.runSandbox();
        const unknown = { CDI_devices: [{ name: "v.com/gpu=1" }] };
        const message = /CDI device "v\.com\/gpu=1": cannot be/;
        await rejectsWith(shim.createContainer(sandbox, unknown), "precondition", message);
        assert.deepEqual(shim.engine.containers.ids, [sandbox]);
      });
    }
  });

  test("joins the PID namespace only of a running container of its own pod, which counts at the start, too", async () => {
    const sandbox = await shim.runSandbox();
    const other = await shim.runSandbox(runRequest({ metadata: podMetadata("other") }));
    const foreign = await shim.runContainer(other);
    const target = await shim.runContainer(sandbox, "target");
    const joining = (name: string, target_id: string) => {
      const options = namespaceOptions({ pid: NamespaceMode.TARGET, target_id });
      const security_context = containerSecurity({ namespace_options: options });
      const linux = { resources: null, security_context };
      return shim.createContainer(sandbox, { metadata: { name, attempt: 0 }, linux });
    };
    const field = "config\\.linux\\.security_context\\.namespace_options\\.target_id";
    const message = new RegExp(`${field} "${foreign}": is .* another pod`);
    await rejectsWith(joining("x", foreign), "invalid", message);
    await rejectsWith(joining("x", sandbox), "notFound");
    const first = await joining("first", target.slice(0, 12));
    assert.equal(shim.engine.containers.get(first).body.HostConfig.PidMode, `container:${target}`);
    await shim.startContainer(first);
    const second = await joining("second", target);
    shim.engine.containers.exit(target, 0);
    await shim.services.state.sync.refresh(target);
    const refusal = new RegExp(`${field} .*: the container is exited`);
    await rejectsWith(joining("x", target), "precondition", refusal);
    await rejectsWith(shim.startContainer(second), "precondition", /: join the PID namespace: .* is exited/);
    await shim.removeContainer(target);
    await rejectsWith(
      shim.startContainer(second),
      "precondition",
      /join the PID namespace: .* does not exist/,
    );
  });

  describe("of an image with a large /etc/group", () => {
    const withGroups = async (count: number) => {
      const groups = Array.from({ length: count }, (_, index) => `group-${index}:x:${index}:other\n`);
      const files = {
        "/etc/passwd": "root:x:0:0::/:\napp:x:1000:1000::/:\n",
        "/etc/group": `${groups.join("")}staff:x:50:app\n`,
      };
      shim.engine.images.add({ tags: ["site:1"], files });
      const sandbox = await shim.runSandbox();
      return (changes: Partial<LinuxContainerSecurityContext>) => {
        const security_context = containerSecurity({ run_as_user: { value: "1000" }, ...changes });
        const linux = { resources: null, security_context };
        return shim.createContainer(sandbox, { image: imageSpec("site:1"), linux });
      };
    };

    test("reads it, and the groups behind the first 256 KiB", async () => {
      const create = await withGroups(14_000);
      const { body } = shim.engine.containers.get(await create({ run_as_group: { value: "7" } }));
      assert.deepEqual([body.User, body.HostConfig.GroupAdd], ["1000:7", ["50"]]);
    });

    test("leaves one of more than 4 MiB to Docker, and says that Strict needs it", async () => {
      const create = await withGroups(190_000);
      await rejectsWith(
        create({ supplemental_groups_policy: SupplementalGroupsPolicy.Strict }),
        "unsupported",
        /config\.linux\.security_context\.supplemental_groups_policy "Strict": .* too large: name run_as_group/,
      );
      const { body } = shim.engine.containers.get(await create({ run_as_group: { value: "7" } }));
      assert.deepEqual([body.User, body.HostConfig.GroupAdd], ["1000:7", undefined]);
      const reads = shim.world.journal.names("engine.readContainerFile");
      assert.equal(reads.length, 2, "it is read once");
    });
  });

  test("refuses a sandbox that is not ready, an unknown one, and a container in its place", async () => {
    const sandbox = await shim.runSandbox();
    const container = await shim.runContainer(sandbox, "other");
    for (const id of ["f".repeat(64), container]) await rejectsWith(shim.createContainer(id), "notFound");
    await shim.stopSandbox(sandbox);
    const message = /^create container "main" in sandbox ".*": sandbox ".*" is not ready$/;
    await rejectsWith(shim.createContainer(sandbox), "precondition", message);
    assert.deepEqual(shim.engine.containers.ids, [sandbox, container]);
  });

  test("has the users of an image read once, and does without them when they cannot be read", async () => {
    const sandbox = await shim.runSandbox();
    shim.engine.failNext("readContainerFile", new ShimError("unknown", "no archive"));
    const { users } = shim.services.images;
    const imageOf = (id: string): string => shim.services.state.model.requireContainer(id).snapshot.imageId;
    const first = await shim.createContainer(sandbox, { metadata: { name: "a", attempt: 0 } });
    assert.equal(await users.whatIsKnown(imageOf(first)), undefined);
    shim.world.journal.clear();
    await shim.createContainer(sandbox, { metadata: { name: "b", attempt: 0 } });
    await shim.createContainer(sandbox, { metadata: { name: "c", attempt: 0 } });
    assert.notEqual(await users.whatIsKnown(imageOf(first)), undefined);
    const read = shim.world.journal
      .argsOf("engine.readContainerFile")
      .map(([container]) => String(container));
    assert.equal(read.length, 2, "passwd and group, once");
    const isOfPod = read.some((id) => shim.services.state.model.has(id));
    assert.equal(isOfPod, false, "the mounts and processes of a container are not the image's word");
  });

  for (const failure of [undefined, new ShimError("unknown", "no archive")]) {
    const what = failure === undefined ? "" : ", also when its files cannot be read";
    test(`looks a user up through a scratch container when the plan needs it, and removes that container${what}`, async () => {
      const sandbox = await shim.runSandbox();
      if (failure !== undefined) shim.engine.failNext("readContainerFile", failure);
      const security_context = containerSecurity({ supplemental_groups_policy: 1 });
      const creating = shim.createContainer(sandbox, { linux: { resources: null, security_context } });
      const [result] = await Promise.allSettled([creating]);
      assert.equal(result.status, failure === undefined ? "fulfilled" : "rejected");
      const [first, ...others] = shim.engine.containers.ids;
      assert.equal(first, sandbox);
      // Strict: without the groups of the image.
      const users = others.map((id) => shim.engine.containers.get(id).body.User);
      assert.deepEqual(users, failure === undefined ? ["0:0"] : []);
    });
  }

  test("keeps cgroup settings in a record of a container that the read model has", async () => {
    const { containers } = shim.services.records;
    const { model } = shim.services.state;
    const sandbox = await shim.runSandbox();
    const known: boolean[] = [];
    const put = containers.put.bind(containers);
    containers.put = (record) => {
      // A repair removes records of containers that the read model does not have.
      known.push(model.has(record.containerId));
      return put(record);
    };
    shim.engine.events$.policy = () => [];
    const id = await shim.createContainer(sandbox, hugepages);
    assert.deepEqual(known, [true]);
    assert.deepEqual(containers.get(id)?.cgroup.hugepages, [{ pageSize: "2MB", limitBytes: 4_194_304n }]);
  });
});

describe("createContainer() leaves nothing behind", () => {
  test("when the sandbox was stopped while the engine created", async () => {
    const sandbox = await shim.runSandbox();
    const held = shim.holdRequests("createContainer");
    const creating = shim.createContainer(sandbox);
    creating.catch(() => undefined);
    await held.begun();
    await shim.recordStopped(sandbox);
    held.release();
    await rejectsWith(creating, "precondition", /is not ready/);
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
  });

  for (const step of ["engine.createContainer", "engine.inspectContainer"]) {
    test(`when the caller leaves right after ${step}`, async () => {
      const sandbox = await shim.runSandbox();
      const call = shim.call();
      shim.world.journal.afterStep = (done) => {
        if (nameOf(done) === step) call.abort(new ShimError("cancelled", "the caller left"));
      };
      await rejectsWith(shim.createContainer(sandbox, hugepages, call), "cancelled");
      shim.world.journal.afterStep = undefined;
      const { model } = shim.services.state;
      await until("it is removed", () => model.ids().length + shim.engine.containers.ids.length === 2);
      assert.deepEqual(shim.engine.containers.ids, [sandbox]);
      assert.deepEqual(await shim.listedContainers(), {});
      assert.deepEqual([...shim.services.records.containers.all()], []);
    });
  }

  const fault = new ShimError("unavailable", "planned fault");
  for (const [what, fail] of [
    ["the record fails", ({ services }) => (services.records.containers.put = () => Promise.reject(fault))],
    ["the new container cannot be inspected", ({ engine }) => engine.failNext("inspectContainer", fault)],
  ] as readonly (readonly [string, (shim: TestShim) => unknown])[]) {
    test(`when ${what}`, async () => {
      const sandbox = await shim.runSandbox();
      await turns(5);
      shim.engine.events$.policy = () => [];
      fail(shim);
      await rejectsWith(shim.createContainer(sandbox, hugepages), "unavailable", /planned fault/);
      assert.deepEqual(shim.engine.containers.ids, [sandbox]);
      assert.deepEqual(await shim.listedContainers(), {});
    });
  }
});

describe("createContainer() with a taken name", () => {
  test("removes a container of the pod that does not run, with its log link", async () => {
    const sandbox = await shim.runSandbox();
    const dead = await shim.runContainer(sandbox);
    shim.engine.containers.exit(dead, 1);
    const id = await shim.createContainer(sandbox);
    assert.deepEqual(shim.engine.containers.ids, [sandbox, id]);
    assert.deepEqual(await shim.listedContainers(), { [id]: 0 });
    assert.equal(shim.world.host.links.size, 0);
  });

  test("is a conflict when that container runs, which stays untouched", async () => {
    const sandbox = await shim.runSandbox();
    const running = await shim.runContainer(sandbox);
    await rejectsWith(shim.createContainer(sandbox), "conflict", /a running container already has the name/);
    assert.equal(shim.engine.containers.get(running).state.running, true);
    const removed = shim.world.journal.argsOf("engine.removeContainer").map(([container]) => container);
    assert.ok(!removed.includes(running));
  });

  const bind = (host_path: string): Mount => mount({ host_path });

  test("makes a missing source of a mount, says so, and leaves it when the create fails", async () => {
    const sandbox = await shim.runSandbox();
    shim.engine.failNext("createContainer", new ShimError("unknown", "create fails"));
    await rejectsWith(shim.createContainer(sandbox, { mounts: [bind("/srv/x")] }), "unknown");
    assert.equal(shim.world.host.paths.get("/srv/x"), "directory");
    const said = shim.log.lines.filter(({ message }) => message.startsWith("created the missing"));
    assert.deepEqual([said.length, said[0]?.fields], [1, { path: "/srv/x" }]);
    const id = await shim.createContainer(sandbox, { mounts: [bind("/srv/x")] });
    const { Mounts } = shim.engine.containers.get(id).body.HostConfig;
    assert.deepEqual(Mounts, [{ Type: "bind", Source: "/srv/x", Target: "/data" }]);
  });

  test("makes no source that is to be rejected, however its path is written", async () => {
    const absentMountSourcesToReject = new Set(["/etc/hostname"]);
    await using shim = await TestShim.start({ settings: { absentMountSourcesToReject } });
    const sandbox = await shim.runSandbox();
    for (const path of ["/etc/hostname", "/etc/./x/../hostname/"]) {
      await rejectsWith(
        shim.createContainer(sandbox, { mounts: [bind(path)] }),
        "precondition",
        /config\.mounts\[0\]\.host_path ".*": no such path on the node, .*--absent-mount-sources-to-reject/,
      );
    }
    assert.equal(shim.world.host.paths.size, 0);
    await shim.createContainer(sandbox, { mounts: [bind("/etc/hostname/below")] });
  });

  for (const [what, security] of [
    ["user namespaces", { usernsRemap: true }],
    ["no root", { rootless: true }],
  ] as const) {
    test(`leaves it to an engine with ${what} to make a missing source, with the right owner`, async () => {
      const facts = { security: { ...nodeFacts().security, ...security } };
      await using shim = await TestShim.start({ facts });
      const id = await shim.createContainer(await shim.runSandbox(), { mounts: [bind("/srv/x")] });
      assert.equal(shim.world.host.paths.size, 0);
      assert.deepEqual(shim.engine.containers.get(id).body.HostConfig.Binds, ["/srv/x:/data"]);
    });
  }

  test("fails by the path whose file system does not answer, and leaves no container", async () => {
    const sandbox = await shim.runSandbox();
    const reason = "the file system does not answer (10s)";
    shim.world.host.pathProblems.set("/mnt/nfs", { kind: "timeout", reason });
    await rejectsWith(
      shim.createContainer(sandbox, { mounts: [bind("/srv"), bind("/mnt/nfs")] }),
      "timeout",
      /config\.mounts\[1\]\.host_path "\/mnt\/nfs": the file system does not answer \(10s\)$/,
    );
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
  });

  test("takes a random suffix when the dead container cannot be removed", async () => {
    const sandbox = await shim.runSandbox();
    const dead = await shim.runContainer(sandbox);
    shim.engine.containers.exit(dead, 1);
    // The failure is for the dead container, not for the one through which the image's users were read.
    await until("only the pod is left", () => shim.engine.containers.ids.length === 2);
    shim.engine.failNext("removeContainer", new ShimError("precondition", "removal in progress"));
    const id = await shim.createContainer(sandbox);
    assert.match(shim.engine.containers.get(id).name, /_[0-9a-f]{8}$/);
  });

  test("concurrently for one name never ends with two containers", async () => {
    const sandbox = await shim.runSandbox();
    const results = await Promise.allSettled([1, 2].map(() => shim.createContainer(sandbox)));
    assert.ok(results.some(({ status }) => status === "fulfilled"));
    assert.equal(shim.engine.containers.ids.length, 2);
  });
});
