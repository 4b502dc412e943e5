/** Log files of containers through the CRI: rotation, links, a full disk, containers that end while no shim runs. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { lstat, mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inspectContainer, removeContainer } from "../support/docker.js";
import { needsEngineHost } from "../support/engine-host.js";
import { makeLegacyPod } from "../support/legacy-pod.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { lineText, outputOf } from "./log-support.js";

const run = promisify(execFile);

describe("log files", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let directory: string;
  let shim: ShimProcess;
  before(async () => {
    directory = await bed.newDirectory();
    shim = await bed.startShim({ directory });
  });

  const pathOf = async (pod: Pod, id: string): Promise<string> => (await pod.containerStatus(id)).log_path;

  test("a container is shown as ended only when its last line is in the file", async () => {
    await using pod = await bed.runPod(shim.cri);
    const ids = await Promise.all(
      Array.from({ length: 3 }, (_, index) =>
        pod.start({
          metadata: { name: `c${String(index)}` },
          log_path: `c${String(index)}/0.log`,
          command: ["sh", "-c", `head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last`],
        }),
      ),
    );
    for (const id of ids) {
      const { log_path } = await pod.untilExited(id);
      const log = await readFile(log_path, "latin1");
      assert.match(log, / stdout F last\n$/);
      assert.equal(outputOf(log, "stdout").length, 1_000_006);
    }
  });

  test("after RemovePodSandbox nothing is made in the log directory any more", async () => {
    const pod = await bed.runPod(shim.cri);
    await pod.start({ log_path: "main/0.log", command: ["sh", "-c", "while :; do echo x; done"] });
    const logs = String(pod.config.log_directory);
    await pod.stop();
    await pod.remove();
    await run("rm", ["-r", logs]);
    await sleep(300);
    assert.throws(() => readdirSync(logs), { code: "ENOENT" });
  });

  const ofLinks = { skip: needsEngineHost("files") };

  test(
    "--container-log-format=docker: a link, which cannot be reopened, and other shims leave it",
    ofLinks,
    async () => {
      const own = await bed.newDirectory();
      const linking = await bed.startShim({ directory: own, flags: ["--container-log-format=docker"] });
      const pod = await bed.runPod(linking.cri);
      const id = await pod.start({ command: ["sh", "-c", "echo hello; sleep 1000"] });
      const path = await pathOf(pod, id);
      assert.ok((await lstat(path)).isSymbolicLink());
      await assert.rejects(linking.cri.ReopenContainerLog({ container_id: id }), {
        code: 9,
        message: /only the engine can rotate/,
      });
      await linking.stop();
      const next = await bed.startShim({ directory: own });
      await until("the repair", () => Promise.resolve(next.log.includes("engine live") ? true : undefined));
      assert.ok((await lstat(path)).isSymbolicLink());
      await next.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
      await next.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
      await next.stop();
    },
  );

  test("a full disk: reported once, and the log goes on where it stopped", async () => {
    const small = join(await bed.newDirectory(), "small");
    await mkdir(small);
    await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", small]);
    bed.onClose(() => run("umount", ["-l", small]));
    await using pod = await bed.runPod(shim.cri, { log_directory: join(small, "pod") });
    await run("sh", ["-c", `head -c 700000 /dev/zero > ${small}/filler`]);
    const script = `i=0; while [ $i -lt 6000 ]; do echo "$i ${lineText}"; i=$((i+1)); done; sleep 1000`;
    const id = await pod.start({ log_path: "main/0.log", command: ["sh", "-c", script] });
    const path = await pathOf(pod, id);
    await shim.untilLogged(/cannot write container log, waiting for the disk/);
    assert.match(await readFile(path, "latin1"), /\n$/, "no half a line");
    await run("rm", [`${small}/filler`]);
    const expected = Array.from({ length: 6000 }, (_, line) => `${String(line)} ${lineText}\n`).join("");
    await until("the rest of the log", async () =>
      (await readFile(path, "latin1")).includes(" 5999 ") ? true : undefined,
    );
    assert.equal(outputOf(await readFile(path, "latin1"), "stdout"), expected);
    assert.equal(shim.log.split("cannot write container log").length, 2);
  });

  /** A pod of cri-dockerd with its link; answers when its container is in the list of `server`. */
  async function adopt({ cri }: ShimProcess, script: string): Promise<{ id: string; log: string }> {
    const { container: id, log } = await makeLegacyPod(bed, ["sh", "-c", script]);
    await mkdir(dirname(log), { recursive: true });
    await symlink((await inspectContainer(id))?.LogPath ?? "", log);
    await untilListed(cri, id);
    return { id, log };
  }

  const untilListed = (cri: ShimProcess["cri"], id: string): Promise<unknown> =>
    until("the container in the list", async () => {
      return (await cri.ListContainers({ filter: { id } })).containers.length === 1;
    });
  const linesOf = async (file: string): Promise<string> => outputOf(await readFile(file, "latin1"), "stdout");

  test(
    "--adopted-logs=convert: the first rotation of a log that Docker has makes it one of the CRI's",
    ofLinks,
    async () => {
      const script =
        "for i in 0 1 2; do echo $i; done; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo 3; sleep 1000";
      const { id, log } = await adopt(shim, script);
      await assert.rejects(shim.cri.ReopenContainerLog({ container_id: id }), {
        code: 9,
        message: /only the engine can rotate it.*--adopted-logs=convert/,
      });
      await using converting = await bed.startShim({ flags: ["--adopted-logs=convert"] });
      await untilListed(converting.cri, id);
      await rename(log, `${log}.1`);
      await converting.cri.ReopenContainerLog({ container_id: id });
      await converting.cri.ExecSync({ container_id: id, cmd: ["touch", "/tmp/go"], timeout: "10" });
      await until("the new line", async () => (await linesOf(log)) === "3\n");
      await until("the history", async () => (await linesOf(`${log}.1`)) === "0\n1\n2\n");
      for (const file of [log, `${log}.1`]) assert.ok((await lstat(file)).isFile(), file);
    },
  );

  test(
    "--adopted-logs=convert, killed at its steps, with a kubelet that tries again: every line once, in order",
    ofLinks,
    async (context) => {
      const orders = await bed.newDirectory();
      const options = {
        directory: await bed.newDirectory(),
        flags: ["--adopted-logs=convert"],
        nodeFlags: ["--import", fileURLToPath(new URL("../support/kill-points.mjs", import.meta.url))],
        environment: { DOCKERSHIM_TEST_KILL_POINTS: orders },
      };
      let converting = await bed.startShim(options);
      // Most lines at once, the rest while the shim is killed and started.
      const script =
        "i=0; while [ $i -lt 1100 ]; do echo $i; i=$((i+1)); [ $i -gt 1000 ] && sleep 0.02; done";
      const expected = Array.from({ length: 1100 }, (_, line) => `${line}\n`).join("");
      for (let index = 0; ; index += long ? 1 : 7) {
        const killed = { yes: false };
        const { id, log } = await adopt(converting, `${script}; sleep 1000`);
        await writeFile(join(orders, "order"), `${index} ${id}`);
        void converting.exited.then(() => (killed.yes = true));
        let [rotations, attempts] = [0, 0];
        /** As a kubelet does, which renames the file back when it is refused. */
        const rotate = async (): Promise<boolean> => {
          // Kubelets put the time of day there: each attempt has a name of its own.
          const rotated = `${log}.${String((attempts += 1)).padStart(3, "0")}`;
          const isThere = await rename(log, rotated).then(
            () => true,
            () => false,
          );
          const isReopened = await converting.cri.ReopenContainerLog({ container_id: id }).then(
            () => true,
            () => false,
          );
          if (isReopened) rotations += 1;
          else if (isThere) await rename(rotated, log).catch(() => undefined);
          return isReopened;
        };
        const isConverted = async (): Promise<boolean> => {
          const text = await readFile(join(converting.stateDirectory, "logs", `${id}.json`), "utf8").catch(
            () => "{}",
          );
          return (JSON.parse(text) as { history?: unknown }).history === null;
        };
        await rotate();
        await until("the conversion, or the kill", async () => killed.yes || isConverted());
        await rm(join(orders, "order"), { force: true });
        if (killed.yes) {
          await converting.kill();
          converting = await bed.startShim(options);
          await untilListed(converting.cri, id);
        }
        while (rotations < 2) await until("the rotation", rotate);
        await until("the conversion", isConverted);
        const whole = async (): Promise<string> => {
          const rotated = readdirSync(dirname(log)).filter((name) => name.startsWith("0.log."));
          const files = [...rotated.sort(), "0.log"].map((name) => join(dirname(log), name));
          return (await Promise.all(files.map(linesOf))).join("");
        };
        await until("the last line", async () => (await whole()).includes("1099\n"));
        assert.equal(await whole(), expected, `killed before step ${index}`);
        for (const name of readdirSync(dirname(log))) assert.match(name, /^0\.log(\.\d{3})?$/);
        await removeContainer(id);
        if (killed.yes) continue;
        assert.ok(index > 5, "it was killed");
        context.diagnostic(`killed up to step ${index}`);
        return;
      }
    },
  );
});
