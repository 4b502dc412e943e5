import assert from "node:assert/strict";
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { isKind } from "../../src/lib/errors.js";
import type { Snapshot } from "../../src/domain/snapshot.js";
import { EngineHost } from "../../src/shim/host/engine-host.js";
import type { HostAccess } from "../../src/shim/ports/host.js";
import { needsEngineHost } from "../support/engine-host.js";
import { temporaryDirectory } from "../unit/lib/temporary-directory.js";
import { anySignal, type TestContainer } from "../support/engine-contract.js";
import { engineOfSuite, proofsOf, reasonToSkip } from "./engine-support.js";

describe(
  "LocalHost with the files of a real engine",
  { skip: (await reasonToSkip()) || needsEngineHost("files"), timeout: 120_000 },
  () => {
    const at = engineOfSuite();
    let host: HostAccess;
    let sandbox: TestContainer;
    let snapshot: Snapshot;

    before(async () => {
      ({ host } = await EngineHost.connected(at.facts, proofsOf(at.engine), anySignal()));
      sandbox = await at.container();
      await at.engine.startContainer(sandbox.id, anySignal());
      snapshot = await inspect(sandbox.id);
    });

    async function inspect(id: string): Promise<Snapshot> {
      const found = await at.engine.inspectContainer(id, anySignal());
      assert.ok(found !== undefined);
      return found;
    }

    test("linkLog() leads to what the container writes, and unlinkLog() takes it away", async () => {
      await using directory = await temporaryDirectory();
      await using writer = await at.container({ Cmd: ["echo", "written by the container"] });
      const link = join(directory.path, "main", "0.log");
      await at.engine.startContainer(writer.id, anySignal());
      const container = await inspect(writer.id);
      assert.ok(container.logPath !== "", "the engine writes no log files");
      await host.linkLog(link, container, anySignal());
      assert.equal(await readlink(link), container.logPath);
      while ((await inspect(writer.id)).state.running);
      assert.match(await readFile(link, "utf8"), /written by the container/);
      await host.unlinkLog(link, container.id);
      assert.deepEqual(await readdir(join(directory.path, "main")), []);
      assert.ok((await stat(container.logPath)).isFile());
    });

    /** What the kernel has for hugepages of the container, with cgroup v1, v2 and both. */
    async function hugepageFiles(pageSize: string): Promise<readonly string[]> {
      const text = await readFile(`/proc/${String(snapshot.state.pid)}/cgroup`, "utf8");
      const files: string[] = [];
      for (const [, controllers = "", path = ""] of text.matchAll(/^\d+:([^:]*):(.*)$/gm)) {
        if (controllers === "hugetlb") {
          files.push(`/sys/fs/cgroup/hugetlb${path}/hugetlb.${pageSize}.limit_in_bytes`);
        } else if (controllers === "") {
          for (const root of ["", "/unified"])
            files.push(`/sys/fs/cgroup${root}${path}/hugetlb.${pageSize}.max`);
        }
      }
      const found = await Promise.all(
        files.map(async (file) => ((await stat(file).catch(() => undefined)) ? [file] : [])),
      );
      return found.flat();
    }

    test("applyCgroup() limits hugepages, and does without on a host that cannot", async () => {
      const pageSize = "2MB";
      const limitBytes = 4n * 2n ** 21n;
      const [file] = await hugepageFiles(pageSize);
      const apply = (bytes: bigint): Promise<void> =>
        host.applyCgroup(
          snapshot,
          { unified: {}, hugepages: [{ pageSize, limitBytes: bytes }] },
          anySignal(),
        );
      await apply(limitBytes);
      if (file !== undefined) assert.equal((await readFile(file, "utf8")).trim(), String(limitBytes));
      // Kubelets send this for every page size of the node.
      await apply(0n);
    });

    test("applyCgroup() writes settings of cgroup v2 where the engine has it, and refuses them elsewhere", async () => {
      const settings = { unified: { "memory.high": String(2 ** 30) }, hugepages: [] };
      if (at.facts.cgroupVersion === 1) {
        await assert.rejects(host.applyCgroup(snapshot, settings, anySignal()), (error) =>
          isKind(error, "invalid"),
        );
        return;
      }
      await host.applyCgroup(snapshot, settings, anySignal());
      const text = await readFile(`/proc/${String(snapshot.state.pid)}/cgroup`, "utf8");
      const path = /^0::(.*)$/m.exec(text)?.[1] ?? "";
      assert.equal((await readFile(`/sys/fs/cgroup${path}/memory.high`, "utf8")).trim(), String(2 ** 30));
    });
  },
);
