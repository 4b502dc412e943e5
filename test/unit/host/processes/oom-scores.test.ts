import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { HostOomScores, type OomScoreClamping } from "../../../../src/shim/host/processes/oom-scores.js";
import { ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { FakeProc, type FakeProcess } from "../fake-proc.js";

const all = "000001ffffffffff";
const withoutSysResource = "000001fffeffffff";

function engine(score: number, capabilities: string, changes: Partial<FakeProcess> = {}): FakeProcess {
  const status = `Name:\tdockerd\nCapEff:\t${capabilities}\nCapBnd:\t${capabilities}\nCapAmb:\t0\n`;
  return { comm: "dockerd", files: { status, oom_score_adj: `${score}\n` }, ...changes };
}

async function setUp(clamping: OomScoreClamping, dockerd?: FakeProcess, pid = "50\n") {
  const fake = await FakeProc.make();
  const pidFile = join(fake.directory, "docker.pid");
  await writeFile(pidFile, pid);
  if (dockerd !== undefined) await fake.add(50, dockerd);
  const log = recordingLog();
  const scores = new HostOomScores(clamping, log, { pidFile, proc: fake.proc });
  return { fake, scores, log, [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose]() };
}

describe("HostOomScores.detect()", () => {
  const clamped0 = engine(0, withoutSysResource);
  const inUserNamespace = engine(0, all, { userNamespace: 4026532000 });
  type Case = readonly [what: string, mode: OomScoreClamping, engine: FakeProcess | undefined, floor: number];
  const cases: readonly Case[] = [
    ["auto clamps to the score of an engine without the capability", "auto", clamped0, 0],
    ["auto clamps to its score when that is negative, too", "auto", engine(-500, withoutSysResource), -500],
    ["auto clamps to its score in a container that dies first", "auto", engine(985, withoutSysResource), 985],
    ["auto leaves scores alone with the capability", "auto", engine(-500, all), -998],
    ["auto clamps where the capability is one of a user namespace", "auto", inUserNamespace, 0],
    ["auto leaves scores alone when the engine cannot be seen", "auto", undefined, -998],
    ["auto leaves scores alone when the pid is another program's", "auto", { ...clamped0, comm: "sh" }, -998],
    ["always clamps with the capability, too", "always", engine(-500, all), -500],
    ["always clamps to 0 when the engine cannot be seen", "always", undefined, 0],
    ["never does not clamp", "never", clamped0, -998],
  ];
  for (const [what, clamping, dockerd, clamped] of cases) {
    test(what, async () => {
      await using at = await setUp(clamping, dockerd);
      await at.scores.detect();
      assert.equal(at.scores.clamp(-998), clamped);
      assert.equal(at.scores.clamp(1000), 1000);
    });
  }

  for (const pid of ["", "x", "50 51", "-1", "99999999999"]) {
    test(`takes nothing from a pid file that says "${pid}"`, async () => {
      await using at = await setUp("auto", engine(0, withoutSysResource), pid);
      await at.scores.detect();
      assert.equal(at.scores.floor, undefined);
    });
  }

  test("a failed look at the engine's process changes nothing", async () => {
    await using at = await setUp("auto", engine(0, withoutSysResource));
    const proc = new (class extends ProcFiles {
      override text(pid: number | "self", name: string): Promise<string | undefined> {
        return name === "status" ? Promise.reject(new Error("too long")) : super.text(pid, name);
      }
    })(at.fake.proc.root);
    const options = { pidFile: join(at.fake.directory, "docker.pid"), proc };
    const scores = new HostOomScores("auto", at.log, options);
    await scores.detect();
    assert.equal(scores.floor, undefined);
    const reports = at.log.lines.map(({ level, fields }) => `${level} ${String(fields["err"])}`);
    assert.deepEqual(reports, ["warn too long"]);
  });

  test("with the socket asks only the process that listens there", async () => {
    await using fake = await FakeProc.make();
    const socketPath = join(fake.directory, "docker.sock");
    await writeFile(socketPath, "");
    await writeFile(join(fake.directory, "docker.pid"), "50");
    await fake.add(50, engine(0, withoutSysResource));
    await fake.add(60, engine(-400, withoutSysResource, { sockets: { 7: socketPath } }));
    const scores = new HostOomScores("auto", recordingLog(), { socketPath, proc: fake.proc });
    await scores.detect();
    assert.equal(scores.floor, -400);
  });
});

describe("HostOomScores.learnFromFailure()", () => {
  const refusal = new Error("OCI runtime create failed: can't get final child's PID from pipe: EOF: unknown");

  test("limits scores from the first container that fails for it", async () => {
    await using at = await setUp("auto");
    assert.equal(at.scores.learnFromFailure(-998, refusal), true);
    assert.equal(at.scores.clamp(-998), 0);
    assert.equal(at.scores.learnFromFailure(-998, refusal), true, "this one was on its way meanwhile");
    assert.equal(at.scores.learnFromFailure(0, refusal), false, "a score that can be given");
    assert.equal(at.log.lines.length, 1);
  });

  const wordings: readonly string[] = [
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: can't get final child's PID from pipe: EOF: unknown",
    "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: can't get final child's PID from pipe: EOF: unknown",
    "OCI runtime create failed: container_linux.go:380: starting container process caused: process_linux.go:402: getting the final child's pid from pipe caused: EOF: unknown",
    'OCI runtime create failed: container_linux.go:349: starting container process caused "process_linux.go:297: getting the final child\'s pid from pipe caused \\"EOF\\"": unknown',
    'OCI runtime create failed: container_linux.go:344: starting container process caused "process_linux.go:424: container init caused \\"write /proc/self/oom_score_adj: permission denied\\"": unknown',
    "write /proc/self/oom_score_adj: permission denied",
  ];
  for (const wording of wordings) {
    test(`knows the wording "${wording}"`, async () => {
      await using at = await setUp("auto");
      assert.equal(at.scores.learnFromFailure(-1, new Error(wording)), true);
    });
  }

  const process = "OCI runtime create failed: runc create failed: unable to start container process: ";
  const phrase = "can't get final child's PID from pipe: EOF";
  const authors: readonly (readonly [what: string, text: string])[] = [
    ["a command", `${process}exec: "oom_score_adj": executable file not found in $PATH: unknown`],
    ["a command like that", `${process}exec: "${phrase}": executable file not found in $PATH: unknown`],
    ["a path", `${process}mkdir /x: ${phrase}: not a directory: unknown`],
    ["the end of a path", `${process}chdir to cwd ("/x") set in config.json failed: ${phrase}: unknown`],
    ["a user of an image", `unable to find user ${phrase}: no matching entries in passwd file`],
    ["a user, with the phrase", "unable to find user x: write /proc/self/oom_score_adj: permission denied"],
  ];
  for (const [what, text] of authors) {
    test(`learns nothing from ${what} that a pod's author chose`, async () => {
      await using at = await setUp("auto");
      assert.equal(at.scores.learnFromFailure(-998, new Error(text)), false);
      assert.equal(at.scores.floor, undefined);
    });
  }

  test("learns nothing when the engine's process has the capability", async () => {
    await using at = await setUp("auto", engine(-500, all));
    await at.scores.detect();
    assert.equal(at.scores.learnFromFailure(-998, refusal), false);
    assert.equal(at.scores.floor, undefined);
  });

  test("forgets the learned limit when a container with that score fails, too", async () => {
    await using at = await setUp("auto");
    assert.equal(at.scores.learnFromFailure(-998, refusal), true);
    assert.equal(at.scores.learnFromFailure(0, new Error("no such file or directory")), false);
    assert.equal(at.scores.floor, 0);
    assert.equal(at.scores.learnFromFailure(0, refusal), false);
    assert.equal(at.scores.floor, undefined);
  });

  test("uses this program's own score as the initial score of children", async () => {
    await using at = await setUp("auto");
    await at.fake.add("self", { files: { oom_score_adj: "985\n" } });
    await at.scores.detect();
    assert.equal(at.scores.learnFromFailure(-998, refusal), true);
    assert.equal(at.scores.clamp(-998), 985);
  });

  type Other = readonly [what: string, clamping: OomScoreClamping, score: number, error: Error];
  const others: readonly Other[] = [
    ["another reason", "auto", -998, new Error("no such file or directory")],
    ["a score that is no lower than usual", "auto", 0, refusal],
    ["never", "never", -998, refusal],
    ["always, which has clamped already", "always", -998, refusal],
  ];
  for (const [what, clamping, score, error] of others) {
    test(`learns nothing from ${what}`, async () => {
      await using at = await setUp(clamping);
      const before = at.scores.floor;
      assert.equal(at.scores.learnFromFailure(score, error), false);
      assert.equal(at.scores.floor, before);
    });
  }
});
