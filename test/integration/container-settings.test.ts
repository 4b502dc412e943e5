/** What a container is told to be, seen from inside of it. */
import assert from "node:assert/strict";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import type { Answer, LinuxContainerSecurityContext } from "../../src/domain/cri.js";
import {
  NamespaceMode,
  SecurityProfileProfileType,
  Signal,
  SupplementalGroupsPolicy,
} from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer } from "../support/docker.js";
import { isEngineElsewhere, onEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

const asTester = { run_as_user: { value: "1000" }, supplemental_groups: ["3000"] };
const strict = { supplemental_groups_policy: SupplementalGroupsPolicy.Strict };

describe("container settings", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let pod: Pod;
  let count = 0;
  before(async () => {
    pod = await bed.runPod(bed.shim.cri);
  });

  /** Names are taken only once in a pod. */
  const metadata = () => ({ name: `c${String((count += 1))}` });

  async function startSecured(security: Answer<LinuxContainerSecurityContext>): Promise<string> {
    return pod.start({
      metadata: metadata(),
      linux: { security_context: { namespace_options: { pid: NamespaceMode.CONTAINER }, ...security } },
    });
  }

  test("command, arguments, environment and working directory", async () => {
    const id = await pod.start({
      metadata: metadata(),
      command: ["sh", "-c", 'echo "$0|$1|$FROM_IMAGE|$A|$B|$(pwd)"; sleep 1000; :'],
      args: ["zero", "with space"],
      envs: [
        { key: "A", value: Buffer.from("1 = 1") },
        { key: "B", value: Buffer.from("grün") },
      ],
      working_dir: "/tmp",
    });
    // What the process itself has, not what an exec gets.
    const environment = (await pod.shell(id, "tr '\\0' '\\n' < /proc/1/environ")).split("\n");
    for (const line of ["A=1 = 1", "B=grün", "FROM_IMAGE=yes"]) assert.ok(environment.includes(line), line);
    assert.equal(await pod.shell(id, "readlink /proc/1/cwd"), "/tmp");
    const commandLine = await pod.shell(id, "tr '\\0' '\\n' < /proc/1/cmdline");
    assert.match(commandLine, /\nzero\nwith space$/);
    const { log_path } = await pod.containerStatus(id);
    assert.match(await readFile(log_path, "utf8"), /zero\|with space\|yes\|1 = 1\|grün\|\/tmp/);
  });

  test("mounts: read-write and read-only, the last of a path, inner ones on outer ones; the status names the request's paths", async () => {
    const directory = await bed.newDirectory();
    const onEngine = onEngineHost(directory);
    await mkdir(join(onEngine, "data:with colon"), { recursive: true });
    // Root of a container may be another user on the host.
    await chmod(join(onEngine, "data:with colon"), 0o777);
    await writeFile(join(onEngine, "file"), "content");
    for (const name of ["first", "last", "inner"]) {
      await mkdir(join(onEngine, name, "in"), { recursive: true });
      await writeFile(join(onEngine, name, "name"), name);
    }
    const mounts = [
      { container_path: "/rw", host_path: join(directory, "data:with colon") },
      { container_path: "/ro", host_path: join(directory, "file"), readonly: true },
      { container_path: "/m/in", host_path: join(directory, "inner") },
      { container_path: "/m", host_path: join(directory, "first") },
      { container_path: "/m/", host_path: join(directory, "last") },
    ];
    const id = await pod.start({ metadata: metadata(), mounts });
    await pod.shell(id, "echo written > /rw/out");
    assert.equal(await readFile(join(onEngine, "data:with colon", "out"), "utf8"), "written\n");
    assert.equal(await pod.shell(id, "cat /ro; cat /m/name /m/in/name"), "contentlastinner");
    assert.notEqual((await pod.exec(id, "sh", "-c", "echo x > /ro")).exitCode, 0);
    const status = await pod.containerStatus(id);
    const shown = status.mounts.map(({ container_path, host_path, readonly }) => [
      container_path,
      host_path,
      readonly,
    ]);
    assert.deepEqual(
      shown.sort(),
      [
        ["/rw", mounts[0]?.host_path, false],
        ["/ro", mounts[1]?.host_path, true],
        ["/m/in", mounts[2]?.host_path, false],
        ["/m/", mounts[4]?.host_path, false],
      ].sort(),
    );
  });

  test("an empty DNS configuration is an empty resolv.conf, and none is the engine's", async () => {
    const empty = { servers: [], searches: [], options: [] };
    await using isolated = await bed.runPod(bed.shim.cri, { dns_config: empty });
    const id = await isolated.start({ metadata: metadata() });
    const text = await isolated.shell(id, "cat /etc/resolv.conf");
    assert.deepEqual(text.match(/^nameserver .*/gm), isEngineElsewhere ? ["nameserver 127.0.0.1"] : null);
    await using other = await bed.runPod(bed.shim.cri, { dns_config: null });
    assert.match(await other.shell(await other.start({ metadata: metadata() }), "cat /etc/resolv.conf"), /./);
  });

  test("run_as_group with an image whose /etc/group has more than 256 KiB", async () => {
    const group = Array.from({ length: 14_000 }, (_, index) => `group-${index}:x:${index}:other\n`);
    const content = Buffer.from(`${group.join("")}staff:x:50:tester\n`);
    const reference = `dockershim.test/groups:${bed.run}`;
    const above = [{ path: "etc/group", type: "file", mode: 0o644, content }] as const;
    await bed.load({ reference, marker: reference, above });
    const id = await pod.start({
      ...{ metadata: metadata(), image: { image: reference } },
      linux: { security_context: { run_as_user: { value: "1000" }, run_as_group: { value: "2000" } } },
    });
    assert.equal(await pod.shell(id, "id -G"), "2000 50");
  });

  for (const [name, security, expected] of [
    ["user alone", { run_as_user: { value: "1000" } }, ["1000", "1000", "1000 50000"]],
    ["user name", { run_as_username: "tester" }, ["1000", "1000", "1000 50000"]],
    [
      "user and group, Merge",
      { ...asTester, run_as_group: { value: "2000" } },
      ["1000", "2000", "2000 3000 50000"],
    ],
    ["Strict", { ...asTester, ...strict, run_as_group: { value: "2000" } }, ["1000", "2000", "2000 3000"]],
    ["Strict without a group", { ...asTester, ...strict }, ["1000", "1000", "1000 3000"]],
  ] as const) {
    test(`user and groups: ${name}; Merge adds the image's groups, Strict does not`, async () => {
      const id = await startSecured(security);
      const lines = (await pod.shell(id, "id -u; id -g; id -G")).split("\n");
      assert.deepEqual([lines[0], lines[1], sorted(lines[2])], expected);
      const { user } = await pod.containerStatus(id);
      const groups = (user?.linux?.supplemental_groups ?? []).join(" ");
      assert.deepEqual([user?.linux?.uid, user?.linux?.gid, sorted(groups)], expected);
    });
  }

  const chown = 1n << 0n;
  const netAdmin = 1n << 12n;
  const sysResource = 1n << 24n;

  /** What the kernel says of the first process. */
  async function processStatus(id: string): Promise<(field: string) => string> {
    const text = await pod.shell(id, "cat /proc/1/status");
    return (field) => new RegExp(`^${field}:\\s+(\\S+)$`, "m").exec(text)?.[1] ?? "";
  }

  const capabilitiesOf = async (id: string): Promise<bigint> =>
    BigInt(`0x${(await processStatus(id))("CapEff")}`);

  test("capabilities, no_new_privs, seccomp, masked and read-only paths, and a read-only root are the request's", async () => {
    const usual = await startSecured({});
    const ofUsual = await processStatus(usual);
    const hardened = await startSecured({
      capabilities: { add_capabilities: ["NET_ADMIN"], drop_capabilities: ["CHOWN"] },
      seccomp: { profile_type: SecurityProfileProfileType.RuntimeDefault },
      ...{ no_new_privs: true, readonly_rootfs: true },
      ...{ masked_paths: ["/proc/uptime"], readonly_paths: ["/proc/sys/net"] },
    });
    const ofHardened = await processStatus(hardened);
    const [before, after] = [await capabilitiesOf(usual), await capabilitiesOf(hardened)];
    assert.ok((before & chown) !== 0n && (before & netAdmin) === 0n);
    assert.equal(after, (before | netAdmin) & ~chown);
    // Seccomp: 0 is none, 2 a filter.
    for (const [field, ...values] of [
      ["NoNewPrivs", "0", "1"],
      ["Seccomp", "0", "2"],
    ] as const)
      assert.deepEqual([ofUsual(field), ofHardened(field)], values, field);
    assert.match((await pod.exec(hardened, "touch", "/new")).stderr, /Read-only/);
    assert.equal(await pod.shell(hardened, "cat /proc/uptime"), "");
    const mounts = await pod.shell(hardened, "cat /proc/mounts");
    assert.match(mounts, /proc \/proc\/sys\/net proc ro/);
    // Docker's own paths are those of a request without.
    assert.doesNotMatch(mounts, / \/sys\/firmware /);
    assert.match(await pod.shell(usual, "cat /proc/mounts"), / \/sys\/firmware /);
  });

  test("all capabilities dropped, and all there when privileged", async () => {
    assert.equal(
      await capabilitiesOf(await startSecured({ capabilities: { drop_capabilities: ["ALL"] } })),
      0n,
    );
    const ours = /CapBnd:\s*(\w+)/.exec(await readFile("/proc/self/status", "utf8"))?.[1] ?? "0";
    // Without it on the host, old engines cannot start privileged containers at all.
    if ((BigInt(`0x${ours}`) & sysResource) === 0n) return;
    assert.ok(((await capabilitiesOf(await startSecured({ privileged: true }))) & netAdmin) !== 0n);
  });

  test("a Localhost profile of seccomp is obeyed, and one that is not there is refused at creation", async () => {
    const path = join(await bed.newDirectory(), "no-mkdir.json");
    const syscalls = [{ names: ["mkdir", "mkdirat"], action: "SCMP_ACT_ERRNO" }];
    await writeFile(path, JSON.stringify({ defaultAction: "SCMP_ACT_ALLOW", syscalls }));
    const profile_type = SecurityProfileProfileType.Localhost;
    const id = await startSecured({ seccomp: { profile_type, localhost_ref: path } });
    assert.equal((await processStatus(id))("Seccomp"), "2");
    assert.match((await pod.exec(id, "mkdir", "/tmp/x")).stderr, /Operation not permitted/);
    const absent = startSecured({ seccomp: { profile_type, localhost_ref: "/no/such.json" } });
    await rejectsWith(absent, "INVALID_ARGUMENT", /no\/such\.json/);
  });

  test("stop_signal of the request is what StopContainer sends, and the annotation's grace period the engine's", async () => {
    const id = await pod.start({
      metadata: metadata(),
      annotations: { "io.kubernetes.pod.terminationGracePeriod": "45" },
      stop_signal: Signal.SIGNAL_SIGUSR1,
      command: ["sh", "-c", "trap 'exit 7' USR1; trap 'exit 9' TERM; while :; do sleep 1000 & wait; done"],
    });
    const { Config } = (await inspectContainer(id)) ?? {};
    assert.deepEqual([Config?.StopSignal, Config?.StopTimeout], ["SIGUSR1", 45]);
    await pod.shell(id, "grep -q . /proc/1/cmdline");
    await bed.shim.cri.StopContainer({ container_id: id, timeout: "20" });
    assert.equal((await pod.containerStatus(id)).exit_code, 7);
  });

  test("--default-ulimits are those of a container, and not of the pause container", async () => {
    const own = await bed.startShim({ flags: ["--default-ulimits=nofile=512:600,core=0"] });
    await using other = await bed.runPod(own.cri);
    const id = await other.start({ metadata: metadata() });
    const { Ulimits: limits } = (await inspectContainer(id))?.HostConfig ?? {};
    assert.deepEqual(
      limits?.toSorted((left, right) => left.Name.localeCompare(right.Name)),
      [
        { Name: "core", Soft: 0, Hard: 0 },
        { Name: "nofile", Soft: 512, Hard: 600 },
      ],
    );
    // Not the soft limit of files: on a busy machine runc, a program in Go, passes on the one that it has raised for itself.
    assert.equal(await other.shell(id, "ulimit -Hn; ulimit -Sc"), "600\n0");
    assert.equal((await inspectContainer(other.id))?.HostConfig.Ulimits ?? null, null);
  });
});

function sorted(groups: string | undefined): string {
  return (groups ?? "")
    .split(" ")
    .sort((a, b) => Number(a) - Number(b))
    .join(" ");
}
