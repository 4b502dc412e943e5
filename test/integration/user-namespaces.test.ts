/** User namespaces of pods: what is left, and what starts again, wherever the server or its helper ended. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { NamespaceMode } from "../../src/domain/cri.js";
import { ociRuntimeName } from "../../src/domain/oci-changes.js";
import { programPath } from "../../src/shim/native/programs.js";
import { rootsDirectory } from "../../src/shim/oci-runtime/mapped-roots.js";
import type { CriClient } from "../support/cri-client.js";
import { docker } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { long, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const killPoints = fileURLToPath(new URL("../support/kill-points.mjs", import.meta.url));
const firstId = 300_000;
const ids = [{ container_id: 0, host_id: firstId, length: 65_536 }];
const userns_options = { mode: NamespaceMode.POD, uids: ids, gids: ids };
const ofPod = { linux: { security_context: { namespace_options: { userns_options } } } };
const ofContainer = {
  linux: { security_context: { namespace_options: { pid: NamespaceMode.CONTAINER, userns_options } } },
};

const mountTable = (): Promise<string> => readFile("/proc/self/mountinfo", "utf8");

/** Mounts, directories and processes of user namespaces of these tests. */
async function left(): Promise<readonly string[]> {
  const mounts = (await mountTable()).split("\n").filter((line) => line.includes(rootsDirectory));
  const places = await readdir(rootsDirectory).catch(() => []);
  const roots = await Promise.all(places.map((place) => readdir(join(rootsDirectory, place))));
  const processes: string[] = [];
  for (const pid of await readdir("/proc")) {
    const map = /^\d+$/.test(pid) ? await readFile(`/proc/${pid}/uid_map`, "utf8").catch(() => "") : "";
    if (map.includes(` ${firstId} `)) processes.push(`process ${pid}`);
  }
  return [...mounts, ...roots.flat(), ...processes];
}

/** What a server has, while it does nothing. */
async function ownedBy(pid: number, directory: string) {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const files = await readdir(directory, { recursive: true });
  return {
    descriptors: (await readdir(`/proc/${pid}/fd`)).length,
    residentKib: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]),
    // The history has what was, within limits of its own.
    files: files.filter((path) => !path.startsWith("history/")).sort(),
  };
}

const works = async (cri: CriClient, what = "userNamespaces"): Promise<boolean> =>
  (await cri.Status({ verbose: true })).info[what] === '"works"';

await withOwnEngine(import.meta.url, ["runc"], (engine) => {
  describe("user namespaces of pods, when something ends", () => {
    const bed = TestBed.ofSuite();
    let orders = "";
    let directory = "";
    let shim: ShimProcess;
    let skip: string | false = false;
    /** Of servers beside the tests. */
    let others: ReadonlySet<string>;
    before(async () => {
      others = new Set(await left());
      await engine.reload({
        runtimes: { [ociRuntimeName]: { path: programPath("oci-runtime", process.arch, "") } },
      });
      [orders, directory] = [await bed.newDirectory(), await bed.newDirectory()];
      shim = await start();
      await until("the OCI runtime to work", () => works(shim.cri, "ociRuntime"));
      const { info } = await shim.cri.Status({ verbose: true });
      if (info["userNamespaces"] !== '"works"') skip = info["userNamespaces"] ?? "";
    });
    after(() => engine.reload({}));

    const start = () =>
      bed.startShim({
        directory,
        nodeFlags: ["--import", killPoints],
        environment: { DOCKERSHIM_TEST_KILL_POINTS: orders },
      });

    async function removeAll(cri: CriClient): Promise<void> {
      for (const { id: pod_sandbox_id } of (await cri.ListPodSandbox({})).items) {
        await cri.StopPodSandbox({ pod_sandbox_id });
        await cri.RemovePodSandbox({ pod_sandbox_id });
      }
      const own = async (): Promise<readonly string[]> => (await left()).filter((one) => !others.has(one));
      await until("nothing to be left", async () => (await own()).length === 0).catch(() => undefined);
      assert.deepEqual(await own(), []);
    }

    async function live(cri: CriClient): Promise<{ readonly pod: Pod; readonly id: string }> {
      const pod = await bed.runPod(cri, ofPod);
      const id = await pod.start(ofContainer);
      await cri.StopContainer({ container_id: id, timeout: "0" });
      await cri.RemoveContainer({ container_id: id });
      await pod.remove();
      return { pod, id };
    }

    test("a killed server leaves nothing once its pods are removed", async (t) => {
      if (skip !== false) {
        t.skip(skip);
        return;
      }
      await writeFile(join(orders, "order"), "record");
      await live(shim.cri);
      await rm(join(orders, "order"));
      const steps = (await readFile(join(orders, "journal"), "utf8")).trimEnd().split("\n");
      const last = steps.findLastIndex((step) => step.endsWith(" unmapped-root"));
      const chosen = [...steps.keys()].filter(
        (index) => long || index === last || steps[index]?.endsWith(" mapped-root") === true,
      );
      // Of the sandbox, of the container, and the removal.
      assert.ok(chosen.length >= 3, steps.join("\n"));
      for (const index of chosen) {
        await rm(join(orders, "journal"));
        await until("the OCI runtime to work", () => works(shim.cri));
        await writeFile(join(orders, "order"), `${index} ${index}`);
        await Promise.race([live(shim.cri).catch(() => undefined), shim.exited]);
        await rm(join(orders, "order"));
        await shim.kill();
        shim = await start();
        await removeAll(shim.cri);
      }
    });

    test("a container that Docker starts once more has its files, and one root", async (t) => {
      if (skip !== false) {
        t.skip(skip);
        return;
      }
      await until("the OCI runtime to work", () => works(shim.cri));
      const pod = await bed.runPod(shim.cri, ofPod);
      const id = await pod.start(ofContainer);
      await pod.shell(id, "echo kept > /kept; chown 5:6 /kept; chmod 4755 /kept");
      for (const how of ["restart?t=0", "kill", "start"]) {
        const { status, body } = await docker("POST", `/containers/${id}/${how}`);
        assert.equal(status, 204, `${how}: ${String(body)}`);
      }
      // The server learns of it from the engine.
      await until("the container to run", () =>
        pod.exec(id, "true").then(
          () => true,
          () => false,
        ),
      );
      assert.equal(await pod.shell(id, "stat -c %u:%g:%a /kept; stat -c %u:%g /bin/sh"), "5:6:4755\n0:0");
      const roots = (await mountTable()).split("\n").filter((line) => line.includes(`/${id}/root `));
      assert.equal(roots.length, 1, roots.join("\n"));
      await removeAll(shim.cri);
    });

    test("a thousand starts leave nothing, and the server as it was", async (t) => {
      if (skip !== false || !long) {
        t.skip(skip === false ? "with --long" : skip);
        return;
      }
      await until("the OCI runtime to work", () => works(shim.cri));
      const lives = async (count: number): Promise<void> => {
        // What runs out is found at once, and not after the rest.
        for (let done = 0; done < count; done += 3)
          await Promise.all(Array.from({ length: Math.min(3, count - done) }, () => live(shim.cri)));
      };
      await lives(200);
      const before = await ownedBy(shim.pid, directory);
      await lives(800);
      await removeAll(shim.cri);
      const after = await ownedBy(shim.pid, directory);
      t.diagnostic(`${before.residentKib} KiB, then ${after.residentKib} KiB`);
      assert.deepEqual(after.files, before.files);
      assert.ok(
        after.descriptors <= before.descriptors + 5,
        `${before.descriptors}, then ${after.descriptors}`,
      );
      assert.ok(after.residentKib < before.residentKib + 32 * 1024, `${after.residentKib} KiB`);
    });

    describe("a helper", () => {
      const helper = programPath("helper", process.arch, "");
      const perform = (...words: readonly string[]) => spawnSync(helper, words, { encoding: "utf8" });
      /** As a kill after the mounts before it. */
      const faults: Readonly<Record<string, readonly [at: number, message: RegExp]>> = {
        "for a full /run": [0, /^make a directory: error 28$/],
        "at a layer": [10, /^open a layer: error 2$/],
        "at the files of the writable layer": [7, /^open the upper layer: error 2$/],
        "before it mounts the layers": [8, /^mount the layers: error 2$/],
        "before it binds them": [1, /^mount the root of the container: error 2$/],
      };
      for (const [what, [at, message]] of Object.entries(faults))
        test(`that ended ${what} leaves what the next one goes on from, and takes away`, async (t) => {
          if (skip !== false) {
            t.skip(skip);
            return;
          }
          const base = await bed.newDirectory();
          const paths = ["place", "root", "upper", "work", "a", "b"].map((name) => join(base, name));
          const [place = "", root = "", upper = "", work = "", ...lower] = paths;
          for (const path of paths.slice(1)) await mkdir(path);
          await writeFile(join(upper, "file"), "");
          const layers = `lowerdir=${lower.join(":")},upperdir=${upper},workdir=${work}`;
          assert.equal(spawnSync("mount", ["-t", "overlay", "overlay", "-o", layers, root]).status, 0);
          // Where a process ends that gets this word: nothing is there, and there is no room for more.
          const none = join(base, "none");
          if (at === 0) {
            await mkdir(none);
            assert.equal(spawnSync("mount", ["-t", "tmpfs", "-o", "nr_inodes=1", "none", none]).status, 0);
          }
          t.after(() => spawnSync("umount", ["--recursive", root, ...(at === 0 ? [none] : [])]));
          const numbers = [firstId, firstId, 65_536, 65_536].map(String);
          const words = [place, root, ...numbers, "", upper, work, ...lower];
          const ended = perform(
            "mapped-root",
            ...words.map((word, index) => (index === at ? join(none, ...(at === 0 ? ["place"] : [])) : word)),
          );
          assert.equal(ended.status, 1);
          assert.match(ended.stderr, message);
          const again = perform("mapped-root", ...words);
          assert.deepEqual([again.status, again.stderr], [0, ""]);
          assert.equal((await stat(join(root, "file"))).uid, firstId);
          assert.equal(perform("mapped-root", ...words).status, 0);
          assert.equal(perform("unmapped-root", place).status, 0);
          assert.ok(!(await mountTable()).includes(place));
          await assert.rejects(stat(place), { code: "ENOENT" });
          assert.equal(perform("unmapped-root", place).status, 0);
        });
    });
  });
});
