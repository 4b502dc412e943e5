import assert from "node:assert/strict";
import {
  chown,
  lstat,
  lutimes,
  mkdir,
  readdir,
  readFile,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import {
  openReadOnlyStores,
  readOnlyHost,
  readOnlyNetwork,
  readOnlyRpcs,
  removeLeftDirectories,
} from "../../../src/shim/app/read-only.js";
import { rpcs } from "../../../src/shim/cri/rpcs.js";
import type { Rpc } from "../../../src/shim/grpc/handlers.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import type { HostAccess } from "../../../src/shim/ports/host.js";
import type { NetworkPlugin } from "../../../src/shim/ports/network-plugin.js";
import { claimStateDirectory } from "../../../src/shim/state/state-directory.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = (): AbortSignal => new AbortController().signal;

test("readOnlyRpcs() refuses each RPC that changes something, and lets the others through", async () => {
  const called: string[] = [];
  const table = new Map(
    Object.entries(rpcs).map(([name, { readOnly }]): [string, Rpc] => [
      name,
      {
        readOnly,
        subject: () => ({}),
        handle: () => {
          called.push(name);
          return Promise.resolve({});
        },
      },
    ]),
  );
  const refused: string[] = [];
  for (const [name, rpc] of readOnlyRpcs(table)) {
    await rpc
      .handle({}, { signal: never() } as never, () => Promise.resolve())
      .catch((error: unknown) => {
        assert.match(String(error), /this server only reads \(--read-only\)/);
        assert.equal((error as { kind: string }).kind, "precondition");
        refused.push(name);
      });
  }
  const reading = /^List|^Stream|Status$|Stats$|^Version$|^RuntimeConfig$|^ImageFsInfo$/;
  const found = called.filter((name) => !reading.test(name));
  assert.deepEqual(found, ["GetContainerEvents"]);
  assert.ok(refused.includes("ExecSync"));
  assert.ok(refused.includes("Exec"));
  assert.equal(called.length + refused.length, Object.keys(rpcs).length);
});

test("openReadOnlyStores() reads checkpoints of the state directory and leaves it as it is", async () => {
  await using directory = await temporaryDirectory();
  const root = join(directory.path, "state");
  const id = "a".repeat(64);
  await mkdir(join(root, "sandbox"), { recursive: true });
  await writeFile(join(root, "sandbox", id), "not a checkpoint");
  await writeFile(join(root, "sandbox", ".dockershim-0123456789abcdef"), "half a file");
  const before = await readdir(root, { recursive: true });
  const lifetime = new Lifetime(recordingLog());
  const { records, logRecords } = await openReadOnlyStores(
    { stateDir: root, programName: "dockershim" },
    recordingLog(),
    lifetime,
  );
  assert.deepEqual(await records.checkpoints.list(), [id]);
  assert.equal(await records.checkpoints.get(id), undefined);
  await assert.rejects(records.checkpoints.remove(id), { kind: "precondition" });
  await assert.rejects(records.checkpoints.put(id, {} as never), { kind: "precondition" });
  assert.deepEqual(logRecords.ids(), []);
  await lifetime.close();
  assert.deepEqual(await readdir(root, { recursive: true }), before);
  assert.equal(await readFile(join(root, "sandbox", id), "utf8"), "not a checkpoint");
});

test("removeLeftDirectories() removes what killed servers left, and nothing else", async () => {
  await using directory = await temporaryDirectory();
  const at = (name: string): string => join(directory.path, name);
  const [left, served, young, link, foreign, file, other] = [
    ...["left", "served", "young", "link", "foreign", "file"].map((name) => `dockershim-read-only-${name}`),
    "dockershim-other",
  ].map(at) as [string, string, string, string, string, string, string];
  for (const made of [left, served, young, foreign, other]) {
    await mkdir(made);
    await writeFile(join(made, "x"), "");
  }
  await writeFile(file, "");
  await symlink(other, link);
  // A link inside is removed, not what it leads to.
  await symlink(other, join(left, "link"));
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) await chown(foreign, 65534, 65534);
  const claim = await claimStateDirectory(served);
  const old = new Date(Date.now() - 3_600_000);
  for (const made of [left, served, foreign, other]) await utimes(made, old, old);
  await lutimes(link, old, old);

  await removeLeftDirectories(directory.path);
  await claim.release();
  const kept = [served, young, link, file, other, ...(isRoot ? [foreign] : [])];
  assert.deepEqual((await readdir(directory.path)).sort(), kept.map((path) => basename(path)).sort());
  assert.deepEqual(await readdir(other), ["x"]);
  await removeLeftDirectories(at("missing"));
});

test("readOnlyHost() keeps the log link of a container that the other runtime has removed", async () => {
  await using directory = await temporaryDirectory();
  const link = join(directory.path, "0.log");
  await symlink("/var/lib/docker/containers/x/x-json.log", link);
  const host = readOnlyHost({} as HostAccess);
  await host.unlinkLog(link, "x");
  assert.ok((await lstat(link)).isSymbolicLink());
  await assert.rejects(host.writeResolvConf({} as never, "", never()), { kind: "precondition" });
  await assert.rejects(host.linkLog(link, {} as never, never()), { kind: "precondition" });
  await assert.rejects(host.applyCgroup({} as never, {} as never, never()), { kind: "precondition" });
  await assert.rejects(host.killProcessTree("x", 1, never()), { kind: "precondition" });
});

test("readOnlyNetwork() asks the plugin for addresses alone", async () => {
  const asked: string[] = [];
  const plugin = new Proxy({} as NetworkPlugin, {
    get: (_target, name) => () => {
      asked.push(String(name));
      return Promise.resolve(["10.0.0.1"]);
    },
  });
  const network = readOnlyNetwork(plugin);
  await network.start(never());
  await network.engineFound({ local: true });
  await network.stop();
  assert.deepEqual(await network.podAddresses({ namespace: "a", name: "b", sandboxId: "c" }), ["10.0.0.1"]);
  await assert.rejects(network.setUpPod({} as never, never()), { kind: "precondition" });
  await assert.rejects(network.tearDownPod({} as never, never()), { kind: "precondition" });
  await assert.rejects(network.podCidrChanged([]), { kind: "precondition" });
  assert.deepEqual(asked, ["podAddresses"]);
});
