/** `dockershim shadow`, `record` and `replay` between the tests' client and a shim. */
import assert from "node:assert/strict";
import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ShadowReport } from "../../src/compare/shadow/shadow-report.js";
import { connectCri, type CriClient } from "../support/cri-client.js";
import type { Pod } from "../support/pod.js";
import { CommandProcess, runProgram, type ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

describe("dockershim shadow, record and replay", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let directory: string;
  let listen: string;

  beforeEach(async () => {
    directory = await bed.newDirectory();
    listen = join(directory, "listen.sock");
  });

  /** A relay that clients reach, and one of them. */
  async function start(...argv: readonly string[]): Promise<{ command: CommandProcess; cri: CriClient }> {
    const command = CommandProcess.start([...argv, `--primary=${bed.shim.socket}`, `--listen=${listen}`]);
    bed.onClose(() => command.end("SIGKILL"));
    await command.untilPrinted(/clients dial/);
    const cri = connectCri(listen);
    bed.onClose(async () => cri[Symbol.dispose]());
    return { command, cri };
  }

  async function readReport(path: string): Promise<ShadowReport> {
    return JSON.parse(await readFile(path, "utf8")) as ShadowReport;
  }

  /** What a kubelet asks about a pod. */
  async function askAbout(cri: CriClient, pod: Pod, container: string): Promise<object[]> {
    return [
      await cri.Version(),
      await cri.ListPodSandbox({ filter: { id: pod.id } }),
      await cri.ListContainers({ filter: { pod_sandbox_id: pod.id } }),
      (await cri.PodSandboxStatus({ pod_sandbox_id: pod.id })).status ?? {},
      (await cri.ContainerStatus({ container_id: container })).status ?? {},
      await cri.ImageStatus({ image: { image: bed.image } }),
    ];
  }

  test("clients get the primary's answers, the second server gives the same, and a kill leads to the primary", async () => {
    // It reads the addresses and modes of the pods from the records of the first.
    const flags = ["--read-only", `--state-dir=${bed.shim.stateDirectory}`, "--log-level=debug"];
    const second: ShimProcess = await bed.startShim({ flags });
    const report = join(directory, "report");
    const { command, cri } = await start("shadow", `--endpoint=${second.socket}`, `--report=${report}`);
    // There is no report before the process beside the relay runs.
    const serverOf = (): Promise<string> =>
      readReport(report).then(
        ({ shadow }) => shadow.server,
        () => "",
      );
    await until("both servers have answered", async () => (await serverOf()) !== "");
    // Another PID mode is known from the record of the server that made the pod.
    const overrides: object = { linux: { security_context: { namespace_options: { pid: 1 } } } };
    await using pod = await bed.runPod(cri, overrides);
    const container = await pod.start();
    assert.deepEqual(await askAbout(cri, pod, container), await askAbout(bed.shim.cri, pod, container));
    await assert.rejects(second.cri.StopPodSandbox({ pod_sandbox_id: pod.id }), /only reads/);
    const asked = ["ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "ImageStatus"];
    for (const rpc of asked) await second.untilLogged(new RegExp(`"rpc":"${rpc}"[^\\n]*"answered"`));
    // Only what differs once more after a second is a difference.
    await sleep(2500);

    assert.equal(await readlink(listen), join(directory, ".listen.sock.relay"));
    await command.end("SIGKILL");
    await until("the link leads to the primary", async () => (await readlink(listen)) === bed.shim.socket);
    const again = connectCri(listen);
    bed.onClose(async () => again[Symbol.dispose]());
    assert.equal((await again.Version()).runtime_name, "docker");
    const { rpcs, differences } = await until("the report is complete", async () => {
      const read = await readReport(report);
      return read.complete && read;
    });
    for (const rpc of asked) assert.ok((rpcs[rpc]?.compared ?? 0) >= 1, rpc);
    // The user of a container is known from the record of the server that started it.
    const others = differences.filter(({ field }) => !/^(status|containers_statuses\[\])\.user$/.test(field));
    assert.deepEqual(others, []);
    const page = await runProgram(["shadow", "report", report]);
    assert.match(page.stdout, /^ContainerStatus +\d/m);
  });

  test("the life of a pod is played at the same engine, and the answers are equal", async () => {
    const file = join(directory, "recording");
    const { command, cri } = await start("record", `--output=${file}`);
    {
      const pod = await bed.runPod(cri);
      const envs = [{ key: "PASSWORD", value: Buffer.from("very-secret") }];
      const container = await pod.start({ envs, labels: { from: "a very-secret" } });
      await askAbout(cri, pod, container);
      assert.equal(await pod.shell(container, "echo a; true very-secret"), "a");
      await pod[Symbol.asyncDispose]();
    }
    const { code, stderr } = await command.end("SIGTERM");
    assert.equal(code, 0, stderr);
    assert.equal(await readlink(listen), bed.shim.socket);
    const text = await readFile(file, "utf8");
    assert.ok(!text.includes("very-secret"));
    assert.match(text, /\{"end":true,"calls":\d+,"dropped":0,"reason":"stopped"\}\n$/);

    const argv = ["replay", file, `--endpoint=${bed.shim.socket}`, "--fast", "--anyway", "--output=json"];
    const played = await runProgram(argv);
    const result = JSON.parse(played.stdout) as Record<string, unknown>;
    assert.deepEqual([played.code, result["differences"], result["left"]], [0, [], []], played.stdout);
    assert.deepEqual([result["isWhole"], result["missingImages"], result["missingPaths"]], [true, [], []]);
    assert.deepEqual((await bed.shim.cri.ListPodSandbox()).items.length, 0);
  });
});
