/** The end of the process, the start of the next one, and programs that start beside it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { lstat, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { inspectContainer } from "../support/docker.js";
import { runProgram } from "../support/shim-process.js";
import { onEngineHost } from "../support/engine-host.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

describe("restart", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  test("SIGTERM lets calls in flight end, leaves containers running, and a new shim sees the same", async () => {
    const directory = await bed.newDirectory();
    const first = await bed.startShim({ directory });
    const pod = await bed.runPod(first.cri, { annotations: { a: "b" } });
    const id = await pod.start();
    const filter = { label_selector: { [runLabel]: bed.run } };
    const seen = [
      await first.cri.ListPodSandbox({ filter }),
      await pod.status(),
      await pod.containerStatus(id),
    ];
    await pod.shell(id, "mkfifo /tmp/gate");
    const inFlight = pod.exec(id, "sh", "-c", "echo started > /tmp/started; cat /tmp/gate");
    // It runs when its file is there.
    await pod.shell(id, "until [ -s /tmp/started ]; do sleep 0.1; done");
    first.signal("SIGTERM");
    await first.untilLogged(/"msg":"stopping; containers keep running"/);
    const pid = (await inspectContainer(id))?.State.Pid ?? 0;
    const gate = onEngineHost(`/proc/${String(pid)}/root/tmp/gate`);
    assert.equal(spawnSync("sh", ["-c", `echo let go > ${gate}`], { timeout: 10_000 }).status, 0);
    assert.deepEqual(await inFlight, { stdout: "let go\n", stderr: "", exitCode: 0 });
    const exit = await first.exited;
    assert.deepEqual([exit.code, exit.signal], [0, null], exit.stderr);
    await assert.rejects(lstat(first.socket), { code: "ENOENT" });
    assert.equal((await inspectContainer(id))?.State.Running, true);

    const second = await bed.startShim({ directory });
    // The image's user database is read again in the background.
    await until("the container's user", async () => {
      const { status } = await second.cri.ContainerStatus({ container_id: id });
      return status?.user !== null;
    });
    assert.deepEqual(
      [
        await second.cri.ListPodSandbox({ filter }),
        (await second.cri.PodSandboxStatus({ pod_sandbox_id: pod.id })).status,
        (await second.cri.ContainerStatus({ container_id: id })).status,
      ],
      seen,
    );
    await second.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
    await second.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
    await second.stop();
  });

  /** Starts a second one; the line that it says. */
  async function secondOf(own: {
    readonly stateDirectory?: string;
    readonly socket?: string;
  }): Promise<string> {
    const directory = await bed.newDirectory();
    const { stateDirectory = join(directory, "state"), socket = join(directory, "other.sock") } = own;
    const { code, stderr } = await runProgram([
      ...[`--state-dir=${stateDirectory}`, `--container-runtime-endpoint=unix://${socket}`],
      "--network-plugin=no-op",
    ]);
    assert.equal(code, 1);
    assert.match(stderr, /^dockershim: [^\n]*\n$/);
    return stderr;
  }

  test("a second instance on the same state directory or socket ends with one line, and the first goes on", async () => {
    const { stateDirectory, socket, cri } = await bed.startShim();
    assert.match(await secondOf({ stateDirectory }), /another dockershim runs on the state directory ".*"/);
    assert.match(await secondOf({ socket }), /cri\.sock/);
    await cri.Version({});
  });

  test("a socket without a listener is replaced; the new one is private", async () => {
    const directory = await bed.newDirectory();
    const first = await bed.startShim({ directory });
    await first.kill();
    assert.ok((await lstat(first.socket)).isSocket());
    const second = await bed.startShim({ directory });
    await second.cri.Version({});
    assert.equal((await stat(second.socket)).mode & 0o777, 0o600);
    assert.equal((await stat(second.stateDirectory)).mode & 0o777, 0o700);
  });

  test("a socket of another program is left alone", async () => {
    const path = join(await bed.newDirectory(), "cri.sock");
    const other = createServer((socket) => socket.on("error", () => undefined).end("mine")).listen(path);
    await once(other, "listening");
    await secondOf({ socket: path });
    assert.ok((await lstat(path)).isSocket());
    other.close();
  });
});
