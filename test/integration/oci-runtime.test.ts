/** What Docker's API has no words for: refused as long as the engine has no OCI runtime in front of runc, and right with it. */
import assert from "node:assert/strict";
import { mkdir, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Answer, type ContainerConfig, NamespaceMode } from "../../src/domain/cri.js";
import { ociRuntimeName } from "../../src/domain/oci-changes.js";
import { programPath } from "../../src/shim/native/programs.js";
import { rejectsWith } from "../support/cri-client.js";
import { docker, dockerJson, inspectContainer, pidOfContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

/** Of cgroup v2; a node with both versions may have few. */
const controllers = await readFile("/sys/fs/cgroup/cgroup.controllers", "utf8").catch(() => undefined);
const [limit = "", value = ""] =
  controllers?.includes("pids") === true ? ["pids.max", "77"] : ["hugetlb.2MB.max", "4194304"];
const named = (name: string): Answer<ContainerConfig> => ({ metadata: { name, attempt: 0 } });
const ownPid = { namespace_options: { pid: NamespaceMode.CONTAINER } };

interface Row {
  readonly config: (bed: TestBed) => Answer<ContainerConfig>;
  /** Without the runtime; undefined for what has another way. */
  readonly refusal: RegExp | undefined;
  /** A shell command in the container, and what it prints. */
  readonly look: string;
  readonly seen: RegExp;
  /** Why this node or engine cannot show it; asked when the engine runs. */
  readonly skip?: () => Promise<string | false>;
}

const rows: Readonly<Record<string, Row>> = {
  "mount options": {
    config: ({ directory }) => ({
      mounts: [
        { host_path: directory, container_path: "/x", mount_options: ["noexec", "nosuid", "nodev"] },
        { host_path: directory, container_path: "/y", readonly: true, mount_options: ["noexec"] },
      ],
    }),
    refusal: /config\.mounts\[0\]\.mount_options "noexec,nosuid,nodev": Docker takes no options for mounts/,
    look: "awk '$2 ~ \"^/[xy]$\" { print $2, $4 }' /proc/self/mounts | sort",
    seen: /^\/x rw,nosuid,nodev,noexec,\S*\n\/y ro,\S*noexec,\S*$/m,
  },
  "recursive read-only mounts": {
    config: () => ({
      mounts: [{ host_path: "/dev", container_path: "/x", readonly: true, recursive_read_only: true }],
    }),
    refusal: /RROUnsupported: .*config\.mounts\[0\]\.recursive_read_only of "\/x": needs Docker API 1\.44/,
    look: `awk '$2 ~ "^/x" { print substr($4, 1, 3) }' /proc/self/mounts | sort | uniq -c | awk '{ print ($1 > 1), $2 }'`,
    seen: /^1 ro,$/,
    skip: async () => {
      const { ApiVersion } = (await dockerJson("GET", "/version")) as { readonly ApiVersion: string };
      return Number(ApiVersion.split(".")[1]) >= 44 && "the engine has words for them";
    },
  },
  "ambient capabilities": {
    config: () => ({
      linux: {
        security_context: {
          ...ownPid,
          run_as_user: { value: "1000" },
          capabilities: { drop_capabilities: ["ALL"], add_ambient_capabilities: ["NET_BIND_SERVICE"] },
        },
      },
    }),
    refusal: /add_ambient_capabilities: Docker cannot set ambient capabilities/,
    look: "grep -E 'Cap(Eff|Amb)' /proc/1/status",
    seen: /^CapEff:\t0000000000000400\nCapAmb:\t0000000000000400$/,
  },
  "CDI devices with hooks, mount options and owners": {
    config: ({ directory, run }) => ({
      CDI_devices: [{ name: `dockershim-${run}.test/device=one` }],
      mounts: [{ host_path: directory, container_path: "/d" }],
    }),
    refusal:
      /CDI device ".*": this engine cannot apply hooks of the device's specification, and the engine has no/,
    look: `cut -c 1-13 /d/hooked; stat -c %a:%u /dev/cdi; awk '$2 == "/cdi" { print $4 }' /proc/self/mounts`,
    seen: /^\{"ociVersion"\n640:5\nro,nosuid,nodev,noexec,/,
    skip: async () => {
      const { CDISpecDirs } = (await dockerJson("GET", "/info")) as {
        readonly CDISpecDirs?: readonly string[];
      };
      return (CDISpecDirs ?? []).length > 0 && "the engine injects devices";
    },
  },
  "unified limits before the first instruction": {
    config: () => ({
      command: ["sh", "-c", `cat /sys/fs/cgroup/${limit} > /first; sleep 1000`],
      linux: { security_context: ownPid, resources: { unified: { [limit]: value } } },
    }),
    refusal: undefined,
    look: "cat /first",
    seen: new RegExp(`^${value}$`),
    skip: () => Promise.resolve(controllers === undefined && "the node has cgroup v1"),
  },
  "limits of hugepages before the first instruction": {
    config: () => ({
      command: ["sh", "-c", "cat /sys/fs/cgroup/hugetlb.2MB.max > /first; sleep 1000"],
      linux: {
        security_context: ownPid,
        resources: { hugepage_limits: [{ page_size: "2MB", limit: "4194304" }] },
      },
    }),
    refusal: undefined,
    look: "cat /first",
    seen: /^4194304$/,
    skip: () =>
      Promise.resolve(controllers?.includes("hugetlb") !== true && "no such controller of cgroup v2"),
  },
};

async function isSkipped(t: { skip(reason: string): void }, why: Row["skip"]): Promise<boolean> {
  const reason = (await why?.()) ?? false;
  if (reason !== false) t.skip(reason);
  return reason !== false;
}

await withOwnEngine(import.meta.url, ["runc"], (engine) => {
  describe("the OCI runtime in front of runc", () => {
    const bed = TestBed.ofSuite({ shim: {} });
    let pod: Pod;
    before(async () => {
      pod = await bed.runPod(bed.shim.cri);
    });
    after(() => engine.reload({}));

    const ofDevices = `/etc/cdi/dockershim-${bed.run}.json`;
    before(async () => {
      const hook = {
        hookName: "createRuntime",
        path: "/bin/sh",
        args: ["sh", "-c", `cat > ${bed.directory}/hooked`],
      };
      const containerEdits = {
        hooks: [hook],
        mounts: [
          { hostPath: "/etc", containerPath: "/cdi", options: ["bind", "ro", "nosuid", "nodev", "noexec"] },
        ],
        deviceNodes: [{ path: "/dev/cdi", hostPath: "/dev/null", fileMode: 0o640, uid: 5 }],
      };
      const kind = `dockershim-${bed.run}.test/device`;
      await mkdir("/etc/cdi", { recursive: true });
      await writeFile(
        ofDevices,
        JSON.stringify({ cdiVersion: "0.6.0", kind, devices: [{ name: "one", containerEdits }] }),
      );
    });
    after(() => rm(ofDevices, { force: true }));

    const state = async (shim: ShimProcess): Promise<unknown> => {
      const { info } = await shim.cri.Status({ verbose: true });
      return JSON.parse(info["ociRuntime"] ?? "null");
    };

    describe("that the engine does not have", () => {
      for (const [what, { config, refusal, skip }] of Object.entries(rows)) {
        if (refusal === undefined) continue;
        test(`${what} are refused, and the refusal names what is missing`, async (t) => {
          if (await isSkipped(t, skip)) return;
          const created = pod.create(config(bed));
          await rejectsWith(created, "UNIMPLEMENTED", refusal);
          await rejectsWith(pod.create(config(bed)), "UNIMPLEMENTED", /docs\/run\/oci-runtime\.md/);
        });
      }
      test("is told in Status", async () => {
        const { features } = await bed.shim.cri.Status({});
        assert.equal(features?.mount_options, false);
        assert.match(JSON.stringify(await state(bed.shim)), /the engine has no runtime/);
      });
    });

    describe("that the engine has", () => {
      before(async () => {
        const path = programPath("oci-runtime", process.arch, "");
        await engine.reload({ runtimes: { [ociRuntimeName]: { path } } });
        await until("the runtime to work", async () => (await state(bed.shim)) === "works");
      });

      test("is told in Status, and no handler has its name", async () => {
        const { features, runtime_handlers } = await bed.shim.cri.Status({});
        assert.equal(features?.mount_options, true);
        assert.ok(!runtime_handlers.some(({ name }) => name === ociRuntimeName));
        await rejectsWith(bed.runPod(bed.shim.cri, {}, ociRuntimeName), "INVALID_ARGUMENT", /not supported/);
      });

      for (const [what, { config, look, seen, skip }] of Object.entries(rows))
        test(`${what} are exact, and exec, stop and remove work`, async (t) => {
          if (await isSkipped(t, skip)) return;
          const id = await pod.start({ ...named(bed.newName("c")), ...config(bed) });
          assert.equal((await inspectContainer(id))?.HostConfig.Runtime, ociRuntimeName);
          assert.match(await pod.shell(id, look), seen);
          await bed.shim.cri.StopContainer({ container_id: id, timeout: "0" });
          await bed.shim.cri.RemoveContainer({ container_id: id });
          assert.equal(await inspectContainer(id), undefined);
        });

      test("is not used by containers that need nothing of it", async () => {
        const id = await pod.start(named(bed.newName("c")));
        assert.notEqual((await inspectContainer(id))?.HostConfig.Runtime, ociRuntimeName);
        assert.notEqual((await inspectContainer(pod.id))?.HostConfig.Runtime, ociRuntimeName);
      });

      test("a container starts by a later server, and by none while there is none", async () => {
        const directory = await bed.newDirectory();
        const shim = await bed.startShim({ directory });
        const own = await bed.runPod(shim.cri);
        await until("the runtime to work", async () => (await state(shim)) === "works");
        const { mounts = [] } = rows["mount options"]?.config(bed) ?? {};
        const [first, second] = [
          await own.create({ mounts }),
          await own.create({ ...named("second"), mounts }),
        ];
        await shim.kill();
        const { status, body } = await docker("POST", `/containers/${first}/start`);
        assert.equal(status, 500);
        assert.match(String(body), /dockershim: no server of dockershim knows this container/);
        const later = await bed.startShim({ directory });
        await using again = own.through(later.cri);
        await later.cri.StartContainer({ container_id: second });
        assert.match(await again.shell(second, "cat /proc/self/mounts"), / \/x \S+ rw,nosuid,nodev,noexec,/);
      });

      describe("user namespaces", () => {
        let reason: unknown;
        const mapping = [{ container_id: 0, host_id: 300_000, length: 65_536 }];
        const userns_options = { mode: NamespaceMode.POD, uids: mapping, gids: mapping };
        const users = {
          security_context: { namespace_options: { pid: NamespaceMode.CONTAINER, userns_options } },
        };

        const runMapped = (): Promise<Pod> =>
          bed.runPod(bed.shim.cri, {
            linux: { security_context: { namespace_options: { userns_options } } },
          });

        before(async () => {
          const { info } = await bed.shim.cri.Status({ verbose: true });
          reason = JSON.parse(info["userNamespaces"] ?? "null") as unknown;
        });
        const skipUnlessMapped = (t: { skip(reason: string): void }): boolean => {
          if (reason !== "works") t.skip(String(reason));
          return reason !== "works";
        };

        test("root of the pod is another user of the node, and files of image and volumes are its own", async (t) => {
          if (skipUnlessMapped(t)) return;
          const volume = await bed.newDirectory();
          await writeFile(join(volume, "of-root"), "");
          await using own = await runMapped();
          const mounts = [
            { host_path: volume, container_path: "/v", uidMappings: mapping, gidMappings: mapping },
          ];
          const id = await own.start({ linux: users, mounts });
          assert.match(await own.shell(id, "cat /proc/self/uid_map"), /^0 +300000 +65536$/);
          // The request names no masked path.
          assert.equal(await own.shell(id, "grep -c ' /proc/' /proc/self/mounts || true"), "0");
          assert.equal(await own.shell(id, "stat -c %u:%g / /bin/sh /etc/hosts /v/of-root | sort -u"), "0:0");
          await own.shell(id, "echo x > /new; chown 5:6 /new; echo x >> /etc/hosts; echo x > /v/new");
          assert.equal((await stat(join(volume, "new"))).uid, 0);
          const root = /^\S+ \S+ \S+ \S+ (\S+) .* tmpfs dockershim /m;
          const [, mounted = ""] = root.exec(await readFile("/proc/self/mountinfo", "utf8")) ?? [];
          const { mode, uid, gid } = await stat(mounted);
          // Other users of the node do not pass.
          assert.deepEqual([mode & 0o777, uid, gid], [0o710, 0, 300_000]);
          // What a root that has escaped is: processes and files of the node are not its own.
          assert.match(
            await readFile(`/proc/${await pidOfContainer(id)}/status`, "utf8"),
            /^Uid:\t300000\t300000/m,
          );
          const pidOfSandbox = await pidOfContainer(own.id);
          assert.equal(
            await own.shell(id, "readlink /proc/self/ns/user"),
            await readlink(`/proc/${pidOfSandbox}/ns/user`),
          );
          const { linux } = await own.status();
          assert.deepEqual(linux?.namespaces?.options?.userns_options, userns_options);
          const { exitCode } = await own.exec(id, "sh", "-c", "exit 3");
          assert.equal(exitCode, 3);
        });
      });
    });
  });
});
