import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { silentLogger } from "../../../src/shim/lib/log.js";
import { chooseHost, RemoteHost } from "../../../src/shim/host/choose-host.js";
import { LocalHost } from "../../../src/shim/host/local-host.js";
import type { HostAccess } from "../../../src/shim/ports/host.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const socket = "unix:///var/run/docker.sock";

describe("chooseHost()", () => {
  const cases: readonly (readonly [
    what: string,
    local: boolean,
    change: {
      readonly endpoint?: string;
      readonly kernelVersion?: string;
      readonly dockerRootDir?: string;
      readonly engineIdFile?: string;
    },
  ])[] = [
    ["a socket, the same kernel and a data root that is here", true, {}],
    ["an engine that wrote its id into the data root", true, { engineIdFile: "FAKE\n" }],
    ["a data root that another engine wrote its id into", false, { engineIdFile: "OTHER\n" }],
    ["another kernel", false, { kernelVersion: "6.6.12-linuxkit" }],
    ["a TCP endpoint", false, { endpoint: "tcp://127.0.0.1:2375" }],
    ["a data root that is not here", false, { dockerRootDir: "/no/such/directory" }],
    ["no data root", false, { dockerRootDir: "" }],
  ];
  for (const [what, local, { endpoint = socket, engineIdFile, ...facts }] of cases) {
    test(`takes the engine for ${local ? "local" : "remote"} with ${what}`, async () => {
      await using at = await temporaryDirectory();
      await mkdir(join(at.path, "containers"));
      if (engineIdFile !== undefined) await writeFile(join(at.path, "engine-id"), engineIdFile);
      const changes = { kernelVersion: release(), dockerRootDir: at.path, ...facts };
      assert.equal((await chooseHost(nodeFacts(changes), endpoint)).local, local);
    });
  }
});

describe("LocalHost", () => {
  const host = new LocalHost(nodeFacts(), silentLogger());

  test("networkNamespace() names none for a pid that is not provably the sandbox's", () => {
    assert.equal(
      host.networkNamespace(snapshotOf({ id: idOf("a0"), state: { pid: process.pid } })),
      undefined,
    );
    assert.equal(host.networkNamespace(snapshotOf({ id: idOf("a0"), state: { pid: 0 } })), undefined);
  });

  test("openNetworkNamespace() leaves nothing open of a pid that is not provably the sandbox's", () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    const before = open();
    for (const pid of [process.pid, 1, 0, 4_194_305])
      assert.equal(host.openNetworkNamespace(snapshotOf({ id: idOf("a0"), state: { pid } })), undefined);
    assert.equal(open(), before);
  });

  test("writeResolvConf() fails with unavailable when the engine names no file", async () => {
    const writing = host.writeResolvConf(snapshotOf({ resolvConfPath: "" }), "x");
    await assert.rejects(writing, { kind: "unavailable" });
  });

  test("linkLog() does nothing for a log driver without files", async () => {
    await host.linkLog("/no/such/directory/0.log", snapshotOf({ logPath: "" }));
  });
});

describe("RemoteHost", () => {
  const host: HostAccess = new RemoteHost();
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
