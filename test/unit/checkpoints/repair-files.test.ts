import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { engineSandboxes, sandboxOf } from "../../../checkpoints/engine-sandboxes.js";
import { repairFiles } from "../../../checkpoints/repair-files.js";
import { listedOf, idOf, sandboxSnapshot } from "../../fakes/snapshots.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { vectors } from "./golden.js";

const signal = new AbortController().signal;
const web = vectors.find(({ name }) => name === "one tcp mapping");
assert.ok(web !== undefined);
const { file } = web.dockershim;

const boundWeb = {
  name: "k8s_POD_web-0_default_uid-1_0",
  networkMode: "none",
  portBindings: [{ port: "80/tcp", hostIp: "", hostPort: "8080" }],
} as const;

function engineWith(...snapshots: readonly Snapshot[]): Parameters<typeof engineSandboxes>[0] {
  return {
    listContainers: () => Promise.resolve(snapshots.map(listedOf)),
    inspectContainer: (id) => Promise.resolve(snapshots.find((one) => one.id === id)),
  };
}

async function place(files: Readonly<Record<string, string>>) {
  const root = await temporaryDirectory();
  const directory = join(root.path, "dockershim", "sandbox");
  await mkdir(directory, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return { directory, root: root.path, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

describe("repairFiles() with an engine", () => {
  test("writes the missing checkpoint of a sandbox as dockershim had written it", async () => {
    await using here = await place({});
    const engine = await engineSandboxes(engineWith(sandboxSnapshot(idOf("a"), boundWeb)), signal);
    const [repaired] = await repairFiles([here.directory], { engine, dryRun: false });
    assert.equal(repaired?.problem, "missing");
    assert.equal(repaired.source, "engine");
    assert.equal(await readFile(join(here.directory, idOf("a")), "utf8"), file);
  });

  test("writes none for a sandbox whose checkpoint is in another directory, corrupt ones included", async () => {
    await using here = await place({});
    await using there = await place({ [idOf("a")]: web.criDockerd.file, [idOf("b")]: "{" });
    const snapshots = ["a", "b"].map((start) => sandboxSnapshot(idOf(start), boundWeb));
    const engine = await engineSandboxes(engineWith(...snapshots), signal);
    const options = { engine, dryRun: false, alsoLookIn: [there.directory] };
    assert.deepEqual(await repairFiles([here.directory], options), []);
    assert.deepEqual(await readdir(here.directory), []);
  });

  test("writes a damaged file again from the engine, and keeps it in quarantine", async () => {
    await using here = await place({ [idOf("a")]: "{" });
    const engine = await engineSandboxes(engineWith(sandboxSnapshot(idOf("a"), boundWeb)), signal);
    const [repaired] = await repairFiles([here.directory], { engine, dryRun: false });
    assert.equal(await readFile(join(here.directory, idOf("a")), "utf8"), file);
    assert.equal(await readFile(repaired?.quarantined ?? "", "utf8"), "{");
  });

  test("believes the engine before a content with a wrong checksum that contradicts it", async () => {
    await using here = await place({ [idOf("a")]: file.replace("8080", "9090") });
    const engine = await engineSandboxes(engineWith(sandboxSnapshot(idOf("a"), boundWeb)), signal);
    const [repaired] = await repairFiles([here.directory], { engine, dryRun: false });
    assert.equal(repaired?.source, "engine");
    assert.equal(await readFile(join(here.directory, idOf("a")), "utf8"), file);
  });

  test("keeps a content that says what the engine says, and more: ports without a host port", async () => {
    const more = file.replace(
      /("port_mappings":\[)/,
      '$1{"protocol":"udp","container_port":53,"host_port":0},',
    );
    await using here = await place({ [idOf("a")]: more });
    const engine = await engineSandboxes(engineWith(sandboxSnapshot(idOf("a"), boundWeb)), signal);
    const [repaired] = await repairFiles([here.directory], { engine, dryRun: false });
    assert.equal(repaired?.source, "file");
    const found = decodeCheckpoint(await readFile(join(here.directory, idOf("a"))));
    assert.ok(found.kind === "checkpoint");
    assert.equal(found.checkpoint.data.portMappings?.length, 2);
  });

  test("leaves a file whose sandbox the engine does not have", async () => {
    await using here = await place({ [idOf("a")]: "{" });
    const engine = await engineSandboxes(engineWith(), signal);
    const [repaired] = await repairFiles([here.directory], { engine, dryRun: false });
    assert.equal(repaired?.source, "none");
    assert.match(repaired.note ?? "", /no such sandbox/);
    assert.equal(await readFile(join(here.directory, idOf("a")), "utf8"), "{");
  });
});

describe("sandboxOf()", () => {
  const data = (changes: Partial<Snapshot>) => {
    const said = sandboxOf(sandboxSnapshot(idOf("a"), changes));
    assert.ok(typeof said === "object");
    return said;
  };

  test("reads host network, protocols and addresses of host ports", () => {
    assert.deepEqual(data({ networkMode: "host" }).checkpoint, {
      ...{ version: "v1", name: "web", namespace: "default", data: { hostNetwork: true } },
    });
    const portBindings = [
      { port: "53/udp", hostIp: "10.0.0.7", hostPort: "1053" },
      { port: "36412/sctp", hostIp: "", hostPort: "36412" },
      { port: "80/tcp", hostIp: "", hostPort: "" },
    ];
    assert.deepEqual(data({ portBindings }).checkpoint.data.portMappings, [
      { protocol: "udp", containerPort: 53, hostPort: 1053, hostIp: "10.0.0.7" },
      { protocol: "sctp", containerPort: 36412, hostPort: 36412 },
    ]);
  });

  test("says where host ports are unknown: pods of this program with a network plugin, trimmed descriptions", () => {
    assert.match(data({ logDriver: "none", networkMode: "none" }).portsUnknown ?? "", /network plugin alone/);
    assert.match(data({ isTrimmed: true }).portsUnknown ?? "", /too large/);
    assert.equal(data({ networkMode: "none" }).portsUnknown, undefined);
  });

  test("takes nothing from a container that is no sandbox by its name", () => {
    const said = sandboxOf(sandboxSnapshot(idOf("a"), { name: "k8s_web_a_b_c_0" }));
    assert.ok(typeof said === "string");
    assert.match(said, /k8s_web_a_b_c_0/);
  });
});
