import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { engineSandboxes, sandboxOf } from "../../../checkpoints/engine-sandboxes.js";
import { repairFiles } from "../../../checkpoints/repair-files.js";
import { listedOf, idOf, sandboxSnapshot } from "../../fakes/snapshots.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { oneMapping } from "./golden.js";

const signal = new AbortController().signal;
const { file } = oneMapping.dockershim;

/** An engine with the pod of `oneMapping` under these ids. */
function engineWith(...starts: readonly string[]) {
  const snapshots = starts.map((start) =>
    sandboxSnapshot(idOf(start), {
      name: "k8s_POD_web-0_default_uid-1_0",
      networkMode: "none",
      portBindings: [{ port: "80/tcp", hostIp: "", hostPort: "8080" }],
    }),
  );
  const engine = {
    listContainers: () => Promise.resolve(snapshots.map(listedOf)),
    inspectContainer: (id: string) => Promise.resolve(snapshots.find((one) => one.id === id)),
  };
  return engineSandboxes(engine, signal);
}

async function place(files: Readonly<Record<string, string>>) {
  const root = await temporaryDirectory();
  const directory = join(root.path, "dockershim", "sandbox");
  await mkdir(directory, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return { directory, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

describe("repairFiles() with an engine", () => {
  const twoPorts = '"port_mappings":[{"protocol":"udp","container_port":53,"host_port":0},';
  const more = file.replace('"port_mappings":[', twoPorts);
  for (const [name, before, ids, source, after] of [
    ["writes a missing checkpoint as dockershim had written it", undefined, ["a"], "engine", file],
    ["writes a damaged file again", "{", ["a"], "engine", file],
    ["believes the engine before the content", file.replace("8080", "9090"), ["a"], "engine", file],
    ["keeps a content with more: ports without a host port", more, ["a"], "file", twoPorts],
    ["leaves a file whose sandbox the engine does not have", "{", [], "none", "{"],
  ] as const)
    test(name, async () => {
      await using here = await place(before === undefined ? {} : { [idOf("a")]: before });
      const [repaired] = await repairFiles([here.directory], {
        engine: await engineWith(...ids),
        dryRun: false,
      });
      assert.equal(repaired?.source, source);
      assert.equal(repaired.problem === "missing", before === undefined);
      assert.ok((await readFile(join(here.directory, idOf("a")), "utf8")).includes(after));
      if (source === "none") assert.match(repaired.note ?? "", /no such sandbox/);
      else if (before !== undefined) assert.equal(await readFile(repaired.quarantined ?? "", "utf8"), before);
    });

  test("writes none for a sandbox whose checkpoint is in another directory, corrupt ones included", async () => {
    await using here = await place({});
    await using there = await place({ [idOf("a")]: oneMapping.criDockerd.file, [idOf("b")]: "{" });
    const options = { engine: await engineWith("a", "b"), dryRun: false, alsoLookIn: [there.directory] };
    assert.deepEqual(await repairFiles([here.directory], options), []);
    assert.deepEqual(await readdir(here.directory), []);
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

  test("says where host ports are unknown, and takes nothing from what is no sandbox by its name", () => {
    assert.match(data({ logDriver: "none", networkMode: "none" }).portsUnknown ?? "", /network plugin alone/);
    assert.match(data({ isTrimmed: true }).portsUnknown ?? "", /too large/);
    assert.equal(data({ networkMode: "none" }).portsUnknown, undefined);
    const named = sandboxOf(sandboxSnapshot(idOf("a"), { name: "k8s_web_a_b_c_0" }));
    assert.ok(typeof named === "string" && named.includes("k8s_web_a_b_c_0"));
  });
});
