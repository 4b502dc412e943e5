import assert from "node:assert/strict";
import fs, { existsSync, readdirSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { release } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { systemError } from "../../../src/lib/files/file-errors.js";
import { silentLogger } from "../../../src/lib/log.js";
import { type ReachMode, reachLine, reachTable, tries } from "../../../src/domain/reach.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import { EngineHost, type EngineHostDeps, requireReach } from "../../../src/shim/host/engine-host.js";
import { RemoteHost } from "../../../src/shim/host/remote-host.js";
import { LocalHost } from "../../../src/shim/host/local-host.js";
import type { HostFunctions } from "../../../src/shim/ports/host.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const log = silentLogger();
const { signal } = new AbortController();

describe("EngineHost", () => {
  /** An engine that finds below these directories what is there. */
  function engineThatSees(...directories: readonly string[]): EngineHostDeps["engine"] {
    return {
      firstMissingPath: (paths) =>
        Promise.resolve(
          paths.find((path) => !existsSync(path) || !directories.some((one) => path.startsWith(one))),
        ),
      listContainers: () => Promise.resolve([]),
      inspectContainer: () => Promise.resolve(undefined),
    };
  }

  async function reachIn(
    change: {
      readonly seen?: readonly string[];
      readonly mode?: ReachMode;
      readonly kernelVersion?: string;
      readonly engine?: EngineHostDeps["engine"];
    },
    path: string,
  ): Promise<string> {
    const [root, directory] = [join(path, "root"), join(path, "state")];
    await mkdir(root);
    await mkdir(directory);
    const { seen = ["root", "state"], mode = "auto", kernelVersion = release() } = change;
    const engine = change.engine ?? engineThatSees(...seen.map((name) => join(path, name)));
    const facts = nodeFacts({ kernelVersion, dockerRootDir: root });
    const found = await EngineHost.connected(facts, { engine, mode, directory, log }, signal);
    assert.deepEqual([await readdir(root), await readdir(directory)], [[], []], "the proof left something");
    return reachLine(found.reach);
  }

  const processes = "processes, cgroups, network namespaces";
  const partly = (proven: string, missing?: string): string =>
    `${proven}; not known yet: ${processes}${missing === undefined ? "" : `; out of reach: ${missing} (docs/run/remote.md)`}`;
  const answering = (firstMissingPath: EngineHostDeps["engine"]["firstMissingPath"]) => ({
    engine: { ...engineThatSees(), firstMissingPath },
  });
  const otherKernel = `files, host paths; out of reach: ${processes} (docs/run/remote.md)`;
  const nothing = partly("no job proven", "files, host paths");
  const refusing = answering(() => Promise.reject(new Error("denied")));
  const unused = "nothing of the engine's host (--engine-reach=remote)";
  const cases: readonly (readonly [string, Parameters<typeof reachIn>[0], string])[] = [
    ["proves what the engine finds", {}, partly("files, host paths")],
    ["proves no files that the engine does not find", { seen: ["state"] }, partly("host paths", "files")],
    ["proves no host paths that the engine does not find", { seen: ["root"] }, partly("files", "host paths")],
    ["proves nothing with one that finds everything", answering(() => Promise.resolve(undefined)), nothing],
    ["proves nothing with an engine that refuses to say", refusing, nothing],
    ["knows that processes of another kernel are away", { kernelVersion: "6.6.12-linuxkit" }, otherKernel],
    ["uses nothing that is not wanted", { mode: "remote" }, unused],
  ];
  for (const [what, change, line] of cases) {
    test(what, async () => {
      await using at = await temporaryDirectory();
      assert.equal(await reachIn(change, at.path), line);
    });
  }

  const rootless = nodeFacts({ kernelVersion: release(), dockerRootDir: "/no/such/root" });

  test("asks the engine again before a container that is not visible proves anything", async () => {
    await using at = await temporaryDirectory();
    const running = snapshotOf({
      id: idOf("c0"),
      state: { running: true, status: "running", pid: process.pid },
    });
    const found: Snapshot[] = [];
    const engine = { ...engineThatSees(), inspectContainer: () => Promise.resolve(found[0]) };
    const deps: EngineHostDeps = { engine, mode: "auto", directory: at.path, log, endIsKnownMs: 20 };
    const host = await EngineHost.connected(rootless, deps, signal);
    found.push(running);
    const isProof = host.observe(running, signal);
    // Its process has ended, and the engine learns of it now.
    setImmediate(() => found.pop());
    assert.equal(await isProof, false, "it has ended");
    assert.equal(tries(host.reach, "processes"), true);
    found.push(running);
    assert.equal(await host.observe(running, signal), true, "it runs, and its process is another one here");
    assert.equal(tries(host.reach, "processes"), false);
    assert.equal(tries(host.reach, "networkNamespaces"), false);
  });

  test("learns nothing of processes while it is out of file descriptors", async (t) => {
    await using at = await temporaryDirectory();
    const running = snapshotOf({
      id: idOf("c0"),
      state: { running: true, status: "running", pid: process.pid },
    });
    const engine = { ...engineThatSees(), inspectContainer: () => Promise.resolve(running) };
    const deps: EngineHostDeps = { engine, mode: "auto", directory: at.path, log, endIsKnownMs: 0 };
    const host = await EngineHost.connected(rootless, deps, signal);
    const refuse = (path: unknown): never => {
      throw systemError(24, "open", String(path));
    };
    const restore = (): void => {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    };
    t.after(restore);
    for (const name of ["openSync", "readFileSync"] as const) t.mock.method(fs, name, refuse);
    syncBuiltinESMExports();
    assert.equal(await host.observe(running, signal), false);
    assert.equal(tries(host.reach, "processes", "networkNamespaces"), true);
    restore();
    assert.equal(await host.observe(running, signal), true, "it is another process here");
  });

  test("learns nothing of processes from a container in a VM of its own", async () => {
    await using at = await temporaryDirectory();
    const container = snapshotOf({
      id: idOf("c0"),
      runtime: "kata",
      state: { running: true, pid: process.pid },
    });
    const engine = { ...engineThatSees(), inspectContainer: () => Promise.resolve(container) };
    const runtimes = [{ name: "kata", kind: "ownShim" as const, recursiveReadOnly: false }];
    const deps: EngineHostDeps = { engine, mode: "auto", directory: at.path, log };
    const host = await EngineHost.connected({ ...rootless, runtimes }, deps, signal);
    assert.equal(await host.observe(container, signal), false);
    assert.equal(tries(host.reach, "processes"), true);
  });

  test("believes the id of an engine where nothing may be made", async () => {
    await using at = await temporaryDirectory();
    const deps: EngineHostDeps = {
      ...{ engine: engineThatSees(), mode: "auto", directory: at.path, log },
      readOnly: true,
    };
    const facts = nodeFacts({ kernelVersion: release(), dockerRootDir: at.path });
    for (const [written, reached] of [
      ["FAKE\n", true],
      ["OTHER\n", false],
    ] as const) {
      await writeFile(join(at.path, "engine-id"), written);
      const { reach } = await EngineHost.connected(facts, deps, signal);
      assert.equal(reach.jobs.files.reached, reached);
      assert.equal(reach.jobs.hostPaths.reached, false);
    }
  });

  test("with --engine-reach=host each job without a proof is named", async () => {
    await using at = await temporaryDirectory();
    const deps: EngineHostDeps = { engine: engineThatSees(at.path), mode: "host", directory: at.path, log };
    const { reach } = await EngineHost.connected(rootless, deps, signal);
    assert.throws(() => {
      requireReach(reach);
    }, /^ShimError: --engine-reach=host: the engine's host is out of reach: files: .*"\/no\/such\/root"/);
  });
});

test("docs/run/remote.md has the table of jobs", async () => {
  const text = await readFile("docs/run/remote.md", "utf8");
  for (const { title, proof, lost } of Object.values(reachTable)) {
    const row = `| ${title} | ${proof} | ${lost.replace(/\.$/, "")} |`;
    assert.ok(text.includes(row), row);
  }
});

describe("LocalHost", () => {
  const host = new LocalHost(nodeFacts(), silentLogger());

  test("networkNamespace() names none for a pid that is not provably the sandbox's", () => {
    for (const pid of [process.pid, 0]) {
      assert.equal(host.networkNamespace(snapshotOf({ id: idOf("a0"), state: { pid } })), undefined);
    }
  });

  test("openNetworkNamespace() leaves nothing open of a pid that is not provably the sandbox's", () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    const before = open();
    for (const pid of [process.pid, 1, 0, 4_194_305])
      assert.equal(host.openNetworkNamespace(snapshotOf({ id: idOf("a0"), state: { pid } })), undefined);
    assert.equal(open(), before);
  });
});

describe("RemoteHost", () => {
  const host: HostFunctions = new RemoteHost();
  const signal = new AbortController().signal;
  const container = snapshotOf({ id: idOf("c0") });

  test("refuses what needs files of the engine's host, by name", async () => {
    const refusals = [
      host.writeResolvConf(container, "", signal),
      host.applyCgroup(container, { unified: {}, hugepages: [] }, signal),
      host.readCdiSpecs(["/etc/cdi"]),
    ];
    for (const work of refusals) await assert.rejects(work, { kind: "unsupported" });
  });

  test("leaves to the engine what the engine can tell", async () => {
    assert.equal(host.networkNamespace(container), undefined);
    assert.equal(await host.killProcessTree(container.id, 100, signal), false);
    const paths = { look: [], make: ["/no/such/path"], devices: ["/dev/fuse"] };
    assert.equal(await host.findPaths(paths, idOf("a0"), signal), undefined);
  });
});
