import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { nodeFacts } from "../../fakes/node-facts.js";
import { readLastWords } from "../../../src/doctor/gather/last-words.js";
import { observe } from "../../../src/doctor/gather/observe.js";
import { readEngineState } from "../../../src/doctor/gather/read-engine.js";
import { readCertificates, readPlaces, readKernelLimits } from "../../../src/doctor/gather/read-host.js";
import { NetworkReader, otherEngine, readAddressUse } from "../../../src/doctor/gather/read-network.js";
import { ociRuntimeProblem, readServer } from "../../../src/doctor/gather/read-server.js";
import { startTestServer } from "../grpc/test-server.js";
import { readSettings } from "../../../src/doctor/gather/read-settings.js";
import type { NetworkList } from "../../../src/network/libcni/configuration.js";
import { ShimError } from "../../../src/lib/errors.js";
import { silentLogger } from "../../../src/lib/log.js";
import { configOf } from "../../fakes/config.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { migration } from "../../support/doctor-facts.js";

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "doctor-"));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

describe("what is read of a node", () => {
  test("something that never answers is told after its time", async () => {
    const seen = await observe("read the mount", 1, () => new Promise<never>(() => undefined));
    assert.deepEqual(seen, { problem: "read the mount: not finished after 1ms", timedOut: true });
  });

  test("file systems as stat(1) prints them; one that hangs, and directories that are not there", async () => {
    const answers: Readonly<Record<string, () => Promise<string>>> = {
      "/a": () => Promise.resolve("fd01 4096 1000 250 64 32\n"),
      "/hung": () => new Promise<never>(() => undefined),
    };
    const places = await readPlaces(
      ["/a", "/hung", "/absent"].map((path) => [path, "all"]),
      async (_program, words) => {
        const stdout = await answers[words.at(-1) ?? ""]?.();
        return { exitCode: stdout === undefined ? 1 : 0, stdout: stdout ?? "", stderr: "" };
      },
      200,
    );
    const seen = {
      id: "fd01",
      totalBytes: 4_096_000,
      availableBytes: 1_024_000,
      inodes: 64,
      freeInodes: 32,
      readOnly: false,
    };
    assert.deepEqual(
      places.map(({ path, reading }) => [path, reading.seen ?? reading.timedOut]),
      [
        ["/a", seen],
        ["/hung", true],
      ],
    );
  });

  for (const [said, result, expected] of [
    [
      'time="2026-11-27T12:00:00Z" level=info msg="Starting up"\nfailed to start daemon: no space\nx',
      "exit-code",
      "failed to start daemon: no space",
    ],
    ['time="x" level=fatal msg="token=abc \\"y\\" is bad"', "exit-code", 'token=(removed) \\"y\\" is bad'],
    ["dockershim: unknown flag\n{}\n", "start-limit-hit", "dockershim: unknown flag"],
    ["nothing that is known", "exit-code", "exit-code, as systemd says"],
    ["failed to start daemon: of another day", "oom-kill", "oom-kill, as systemd says"],
    ["failed to start daemon: of another day", "success", undefined],
  ] as const)
    test(`the last words of a unit: ${String(expected)}`, async () => {
      const words = await readLastWords("docker.service", (program) =>
        Promise.resolve({
          exitCode: 0,
          stdout: program === "systemctl" ? `${result}\n` : said,
          stderr: "",
        }),
      );
      assert.equal(words, expected);
    });

  test("a unit has no last words without systemd", async () => {
    const absent = (): Promise<never> => Promise.reject(new Error("not installed"));
    assert.equal(await readLastWords("docker.service", absent), undefined);
  });

  test("the engine whose pods the state directory has, where another one answers", async (t) => {
    const stateDir = await directory(t);
    const engine = (engineId: string) => ({ connect: () => Promise.resolve(nodeFacts({ engineId })) });
    const of = (engineId: string) => otherEngine(stateDir, engine(engineId), new AbortController().signal);
    assert.deepEqual(await of("second"), {});
    await writeFile(join(stateDir, "engine-id"), "first\n");
    assert.deepEqual([await of("first"), await of("second")], [{}, { otherEngine: "first" }]);
  });

  test("a file that is no certificate, and none for a missing one", async (t) => {
    const path = join(await directory(t), "cert.pem");
    await writeFile(path, "-----BEGIN CERTIFICATE-----\n");
    const [found, ...more] = await readCertificates([
      [path, "the server"],
      [`${path}.absent`, "the server"],
    ]);
    assert.deepEqual(
      [found?.reading, more.length],
      [{ problem: "it holds none in PEM", timedOut: false }, 0],
    );
  });

  test("a server that is gone: its socket, and the process that has its port", async (t) => {
    const root = await directory(t);
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    t.after(() => taken.close());
    const { port } = taken.address() as { port: number };
    const config = await configOf({
      "state-dir": root,
      "container-runtime-endpoint": `unix://${root}/cri.sock`,
      "metrics-bind-address": `127.0.0.1:${port}`,
      "cadvisor-socket": "",
    });
    const { runs, socket, takenPorts } = await readServer(config);
    assert.deepEqual([runs, socket], [false, "absent"]);
    assert.equal(takenPorts.length, 1);
    assert.match(takenPorts[0]?.holder ?? "", new RegExp(`^process ${process.pid} \\(`));
  });

  for (const [state, expected] of [
    [{ problem: "it does not work" }, "it does not work"],
    ["works", undefined],
    ["checking", undefined],
  ] as const)
    test(`the OCI runtime in the words of the server: ${JSON.stringify(state)}`, async () => {
      await using server = await startTestServer({
        Status: () =>
          Promise.resolve({ status: { conditions: [] }, info: { ociRuntime: JSON.stringify(state) } }),
      });
      assert.equal(await ociRuntimeProblem(server.path), expected);
    });

  test("what the kernel has a limited number of", async () => {
    const files: Readonly<Record<string, string>> = {
      "/proc/sys/net/netfilter/nf_conntrack_count": "7",
      "/proc/sys/net/netfilter/nf_conntrack_max": "9",
      "/proc/loadavg": "0.1 0.2 0.3 2/301 4711",
      "/proc/sys/kernel/pid_max": "32768",
      "/proc/sys/kernel/threads-max": "400",
      "/proc/sys/fs/inotify/max_user_instances": "128",
    };
    const limits = await readKernelLimits(
      (path) => Promise.resolve(files[path]),
      () => false,
    );
    assert.deepEqual(limits, [
      { name: "connections", used: 7, limit: 9 },
      { name: "threads", used: 301, limit: 400 },
      { name: "inotify", used: 128, limit: 128 },
    ]);
    const own = await readKernelLimits((path) => readFile(path, "utf8").then((text) => text.trim()));
    assert.ok(own.some(({ name, used }) => name === "threads" && used > 0));
  });

  for (const [ipam, ranges, total] of [
    [{ type: "host-local", subnet: "10.9.0.0/24" }, ["10.9.0.0/24"], 253],
    [
      { type: "host-local", ranges: [[{ subnet: "10.9.0.0/30" }], [{ subnet: "fd00::/64" }]] },
      ["10.9.0.0/30"],
      1,
    ],
    [
      {
        type: "host-local",
        ranges: [[{ subnet: "10.9.0.0/16", rangeStart: "10.9.1.0", rangeEnd: "10.9.1.9" }]],
      },
      ["10.9.0.0/16"],
      10,
    ],
    [{ type: "dhcp", subnet: "10.9.0.0/24" }, undefined, undefined],
    [{ type: "host-local", ranges: [[{ subnet: "usePodCidr" }]] }, undefined, undefined],
  ] as const)
    test(`addresses of ${JSON.stringify(ipam)}`, async (t) => {
      const base = await directory(t);
      await mkdir(join(base, "pods"));
      for (const name of ["10.9.0.2", "fd00::2", "lock", "last_reserved_ip.0"])
        await writeFile(join(base, "pods", name), "0123\neth0");
      const list = {
        name: "pods",
        plugins: [{ type: "bridge", configuration: { type: "bridge", ipam } }],
      } as unknown as NetworkList;
      assert.deepEqual(
        await readAddressUse(list, base),
        ranges === undefined ? undefined : { ranges, used: 1, total },
      );
    });

  test("addresses that cannot be listed, as by other users, are not known, and hide nothing else", async (t) => {
    const base = await directory(t);
    const configuration = { type: "bridge", ipam: { type: "host-local", subnet: "10.9.0.0/24" } };
    const name = "a name that is too long".repeat(50);
    const list = { name, plugins: [{ type: "bridge", configuration }] } as unknown as NetworkList;
    assert.equal(await readAddressUse(list, base), undefined);
  });

  test("CNI files: one that is broken, one without its plugins, their bridges", async (t) => {
    const confDir = await directory(t);
    await writeFile(join(confDir, "1.conflist"), "{");
    const ipam = { type: "host-local", ranges: [[{ subnet: "10.9.0.0/24" }], [{ subnet: "fd00::/64" }]] };
    const list = { cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge", bridge: "b0", ipam }] };
    await writeFile(join(confDir, "2.conflist"), JSON.stringify(list));
    await writeFile(
      join(confDir, "9.conf"),
      JSON.stringify({ cniVersion: "1.0.0", name: "lo", type: "loopback" }),
    );
    const config = await configOf({
      "cni-conf-dir": confDir,
      "cni-bin-dir": confDir,
      "network-plugin": "cni",
    });
    const { configurations, network, problem } = await new NetworkReader(config, silentLogger()).network(
      new AbortController().signal,
    );
    assert.equal(network, undefined);
    assert.match(problem ?? "", /^no valid networks found/);
    assert.match(configurations[0]?.problem ?? "", /1\.conflist/);
    assert.deepEqual(configurations.slice(1), [
      {
        path: join(confDir, "2.conflist"),
        network: "pods",
        problem: undefined,
        missing: ["bridge", "host-local"],
        bridges: [{ name: "b0", subnets: ["10.9.0.0/24"] }],
      },
    ]);
  });
});

describe("the engine", () => {
  test("one that fails is told with its kind", async () => {
    const engine = new FakeEngine();
    engine.connect = () => Promise.reject(new ShimError("precondition", "too old"));
    const config = await configOf({ "docker-endpoint": "tcp://127.0.0.1:1" });
    const state = await readEngineState({
      config,
      engine,
      provesReach: false,
      hangs: false,
      log: silentLogger(),
    });
    assert.deepEqual(state, { state: "fails", kind: "precondition", problem: "too old" });
  });
});

describe("the settings", () => {
  const io = {
    environment: {},
    readFile: () => Promise.reject(new Error("no such file")),
    isSocket: () => Promise.resolve(false),
  };
  const flag = (name: string, value: string) => ({ name, value, raw: [], file: "unit", line: 1 });
  const { dockershim } = migration.services;
  const withFlags = (...flags: ReturnType<typeof flag>[]) => ({
    ...migration,
    services: { ...migration.services, dockershim: dockershim && { ...dockershim, flags } },
  });

  test("are those of the unit, and a given flag replaces one of them", async () => {
    const unit = withFlags(flag("state-dir", "/srv/unit"), flag("cni-conf-dir", "/srv/net.d"));
    const given = { flags: [{ name: "state-dir", text: "/srv/given" }], programName: "dockershim" } as const;
    const { settings } = await readSettings(given, unit, io);
    assert.deepEqual(
      [settings.source, settings.stateDir, settings.cniConfDir, settings.problem],
      ["dockershim.service", "/srv/given", "/srv/net.d", undefined],
    );
  });

  test("that the server refuses are told, and the defaults are used", async () => {
    const { settings } = await readSettings(
      { flags: [], programName: "dockershim" },
      withFlags(flag("config", "/c")),
      io,
    );
    assert.equal(settings.problem, 'config file "/c": cannot be read: no such file');
    assert.equal(settings.stateDir, "/var/lib/dockershim");
  });
});
