/** The end of the process, the start of the next one, programs that start beside it, and starts that are refused. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { lstat, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import type { Explanation } from "../../src/history/explain.js";
import type { RecordedSpan } from "../../src/history/history-record.js";
import { ContainerState } from "../../src/domain/cri.js";
import { inspectContainer } from "../support/docker.js";
import { Pod } from "../support/pod.js";
import { runProgram } from "../support/shim-process.js";
import { onEngineHost } from "../support/engine-host.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { outputOf } from "./log-support.js";

/** What `dockershim why` says, without a server. */
async function why(wanted: string, stateDirectory: string): Promise<Explanation> {
  const { code, stdout, stderr } = await runProgram([
    "why",
    "--json",
    wanted,
    `--state-dir=${stateDirectory}`,
  ]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as Explanation;
}

function waitsBelow(spans: readonly RecordedSpan[]): readonly RecordedSpan[] {
  return spans.flatMap((span) => [span, ...waitsBelow(span.below ?? [])]);
}

describe("restart", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  test("SIGTERM lets calls in flight end, leaves containers running, and a new shim sees the same, and what has ended", async () => {
    const directory = await bed.newDirectory();
    const first = await bed.startShim({ directory });
    const pod = await bed.runPod(first.cri, { annotations: { a: "b" } });
    const id = await pod.start();
    const script = "echo one; until [ -e /tmp/go ]; do sleep 0.1; done; echo two";
    const ends = await pod.start({ metadata: { name: "ends" }, command: ["sh", "-c", script] });
    const rootOf = async (container: string): Promise<string> =>
      onEngineHost(`/proc/${(await inspectContainer(container))?.State.Pid ?? 0}/root`);
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
    first.signal("SIGHUP"); // As unit files of dockershim do on reload. It changes nothing.
    first.signal("SIGTERM");
    await first.untilLogged(/"msg":"stopping; containers keep running"/);
    const gate = `${await rootOf(id)}/tmp/gate`;
    assert.equal(spawnSync("sh", ["-c", `echo let go > ${gate}`], { timeout: 10_000 }).status, 0);
    assert.deepEqual(await inFlight, { stdout: "let go\n", stderr: "", exitCode: 0 });
    const exit = await first.exited;
    assert.deepEqual([exit.code, exit.signal], [0, null], exit.stderr);
    await assert.rejects(lstat(first.socket), { code: "ENOENT" });
    assert.equal((await inspectContainer(id))?.State.Running, true);

    await writeFile(`${await rootOf(ends)}/tmp/go`, "");
    await until("its end", async () => (await inspectContainer(ends))?.State.Running === false);

    const second = await bed.startShim({ directory });
    const { state, log_path } = await pod.through(second.cri).containerStatus(ends);
    assert.equal(state, ContainerState.CONTAINER_EXITED);
    // Complete before the end is shown.
    assert.equal(outputOf(await readFile(log_path, "utf8"), "stdout"), "one\ntwo\n");
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
    second.signal("SIGINT");
    assert.equal((await second.exited).code, 0);
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

  test("why: after SIGKILL it tells of a crash loop, a failed exec and their calls, and of a pod that is gone", async () => {
    const first = await bed.startShim();
    const config = bed.podConfig();
    const pod = await Pod.run(bed, first.cri, config);
    const [name, uid] = [
      `${config.metadata?.namespace ?? ""}/${config.metadata?.name ?? ""}`,
      config.metadata?.uid,
    ];
    for (let attempt = 0; attempt < 2; attempt++) {
      const metadata = { name: "crash", attempt };
      await pod.untilExited(await pod.start({ metadata, command: ["sh", "-c", "exit 3"] }));
    }
    const main = await pod.start();
    assert.equal((await pod.exec(main, "sh", "-c", "sleep 1.1; exit 7")).exitCode, 7);
    const recorded = async (): Promise<Explanation | undefined> => {
      const files = await readdir(join(first.stateDirectory, "history")).catch(() => []);
      if (files.length === 0) return undefined;
      const said = await why(name, first.stateDirectory);
      return said.steps.some(({ what }) => what.startsWith("ExecSync")) ? said : undefined;
    };
    await until("the history to be written", recorded);
    await first.kill();
    const { causes, steps, podUid } = await why(name, first.stateDirectory);
    assert.equal(podUid, uid);
    assert.match(causes[0] ?? "", /^container "crash" ended by itself twice, .* with exit code 3$/);
    assert.match(causes.join("\n"), /exec probes or hooks of "main" failed once, .* with exit code 7/);
    const waits = waitsBelow(steps.flatMap((step) => step.waits)).map(({ kind, what }) => `${kind}: ${what}`);
    for (const wait of [/^engine: create container/, /^engine: start container/, /^engine: start exec/])
      assert.ok(
        waits.some((one) => wait.test(one)),
        `${String(wait)}: ${waits.join("\n")}`,
      );
    assert.deepEqual(
      steps.filter(({ kind }) => kind === "call").map(({ what, result }) => `${what}: ${result}`),
      [
        "RunPodSandbox: OK",
        ...[1, 2].flatMap(() => ['CreateContainer of "crash": OK', 'StartContainer of "crash": OK']),
        ...['CreateContainer of "main": OK', 'StartContainer of "main": OK'],
        'ExecSync of "main": OK, exit code 7',
      ],
    );

    const second = await bed.startShim({ directory: dirname(first.stateDirectory) });
    await pod.through(second.cri)[Symbol.asyncDispose]();
    second.signal("SIGTERM");
    await second.exited;
    const gone = await why(main, first.stateDirectory);
    assert.equal(gone.container, "main");
    assert.match(gone.causes.join("\n"), /^the client removed the pod \d+(\.\d)? m?s ago/m);
  });

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

  test("a start that is refused ends with exit code 1, one line for people, and no socket", async () => {
    const directory = await bed.newDirectory();
    const socket = join(directory, "cri.sock");
    const { code, stdout, stderr } = await runProgram([
      ...[`--state-dir=${join(directory, "state")}`, `--container-runtime-endpoint=unix://${socket}`],
      ...["--cgroup-driver=systemd", "--network-plugin=no-op"],
    ]);
    // The log, which is JSON, may say more.
    const lines = stderr.split("\n").filter((line) => !line.startsWith("{"));
    assert.deepEqual([code, stdout, lines.length], [1, "", 2], stderr);
    assert.match(lines[0] ?? "", /^dockershim: .*cgroup-driver=systemd.*cgroupfs/);
    await assert.rejects(lstat(socket), { code: "ENOENT" });
  });
});
