import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { parseNetworkList } from "../../../../src/network/libcni/configuration.js";
import { RunningPlugins } from "../../../../src/network/libcni/running-plugins.js";
import { HelperProcess } from "../../../../src/shim/native/helper-process.js";
import { startAsChild, type StartProgram } from "../../../../src/shim/native/start-program.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { markOf } from "../../../../src/lib/linux/process-mark.js";
import { programPath } from "../../../../src/shim/native/programs.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { until } from "../../../fakes/turns.js";
import { attachmentsWith, livingNetns, oneAddress, sandboxId } from "../cni/fake-plugins.js";

const never = new AbortController().signal;
const id = sandboxId("a");
const list = parseNetworkList(
  JSON.stringify({ name: "net", cniVersion: "0.4.0", plugins: [{ type: "one" }, { type: "three" }] }),
  "test",
);
const removal = {
  containerId: id,
  netns: livingNetns,
  ifName: "eth0",
  args: [],
  capabilityArgs: {},
  subject: "x",
};
const attachment = { ...removal, netnsIdentity: "first" };

type Bed = Awaited<ReturnType<typeof attachmentsWith>>;
let bed: Bed;
let fake: Bed["fake"];
let directory: string;
let running: Bed["running"];
let attachments: Bed["attachments"];

beforeEach(async () => {
  bed = await attachmentsWith("one", "three");
  ({ fake, directory, running, attachments } = bed);
});
afterEach(() => fake[Symbol.asyncDispose]());

/** Files that have a record. */
async function records(): Promise<readonly { readonly path: string; readonly record: object }[]> {
  const found = [];
  for (const name of await readdir(join(directory, "running"))) {
    const path = join(directory, "running", name);
    const text = await readFile(path, "utf8");
    if (text.trim() !== "") found.push({ path, record: JSON.parse(text) as object });
  }
  return found;
}

async function onlyRecord(): Promise<{ readonly path: string; readonly record: object }> {
  const [only, ...others] = await records();
  assert.deepEqual(others, []);
  return only ?? assert.fail();
}

function openAgain(): void {
  ({ running, attachments } = bed.open());
}

describe("a plugin of a killed process", () => {
  const leader = "sleep 1000; :";
  /** Ends when its input does, and leaves a child. */
  const parent = "sleep 1000 & read x";
  let orphan: ChildProcess;
  let pid: number;
  /** As a shim that was killed left it: its process has ended, and its plugin has not. */
  async function startOrphan(script: string, changes: object = {}): Promise<void> {
    orphan = spawn("/bin/sh", ["-c", script], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
      env: { ...process.env, CNI_CONTAINERID: id, CNI_COMMAND: "ADD" },
    });
    pid = orphan.pid ?? 0;
    running.note({ containerId: id, type: "one", command: "ADD" }, markOf(pid));
    const { path, record } = await onlyRecord();
    const owner = { pid: 4_000_000, startTime: "1" };
    await writeFile(path, JSON.stringify({ ...record, owner, ...changes }));
    // Another object does not take it for its own.
    openAgain();
  }
  afterEach(() => {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  });
  /** Shell text that succeeds while the group has a member that is no zombie. */
  const livesText = (): string => `cat /proc/[0-9]*/stat 2> /dev/null | grep -qE '[)] [^ZX] [0-9]+ ${pid} '`;
  const lives = (): boolean => spawnSync("/bin/sh", ["-c", livesText()]).status === 0;

  for (const [what, script] of [
    ["is ended before the first DEL", leader],
    // The leader is gone: its children have its environment.
    ["whose first process has ended is ended before the first DEL", parent],
  ] as const) {
    test(what, async () => {
      await attachments.add(list, attachment, never);
      await startOrphan(script);
      if (script === parent) {
        orphan.stdin?.end("\n");
        await once(orphan, "exit");
      }
      assert.equal(lives(), true);
      await fake.behave("three", "DEL", `if ${livesText()}; then exit 7; fi`);
      await attachments.remove(removal, never);
      assert.deepEqual(await records(), []);
    });
  }

  const ofAnother = (pid: number) => ({ plugin: { pid, startTime: "1" } });
  const cases: readonly (readonly [string, boolean, () => object])[] = [
    ["is killed by killOrphaned() for all containers", false, () => ({})],
    ["is left while its shim lives", true, () => ({ owner: markOf(process.ppid) })],
    ["is none when its number is used again", true, () => ({ ...ofAnother(pid), command: "DEL" })],
    ["is none after a reboot", true, () => ({ bootId: "another" })],
    ["is none when its number means all processes", true, () => ofAnother(1)],
  ];
  for (const [what, stays, changes] of cases) {
    test(what, async () => {
      await startOrphan(leader);
      const { path, record } = await onlyRecord();
      await writeFile(path, JSON.stringify({ ...record, ...changes() }));
      await running.killOrphaned(never);
      assert.equal(lives(), stays);
    });
  }

  test("that does not die keeps the DEL from running", async () => {
    await attachments.add(list, attachment, never);
    await startOrphan(leader);
    const before = await fake.order();
    const stop = new AbortController();
    stop.abort(new ShimError("timeout", "enough"));
    await assert.rejects(attachments.remove(removal, stop.signal));
    assert.deepEqual(await fake.order(), before);
  });
});

test("a plugin that goes on after its helper was lost is ended before the next DEL", async () => {
  const helper = new HelperProcess({ program: () => programPath("helper", process.arch, ""), log: bed.log });
  const start: StartProgram = (...given) => helper.start(...given);
  ({ running, attachments } = bed.open({ start }));
  const file = join(directory, "plugin");
  await fake.behave("one", "ADD", `echo $$ > '${file}.part'; mv '${file}.part' '${file}'; exec sleep 1000`);
  const adding = attachments.add(list, attachment, never);
  adding.catch(() => undefined);
  try {
    await until("it runs", () => existsSync(file));
    const pid = Number(await readFile(file, "utf8"));
    process.kill(helper.pid ?? 0, "SIGKILL");
    await assert.rejects(adding, { kind: "unavailable" });
    assert.notEqual(startTime(pid), "");
    const lives = `grep -q ') [^ZX] ' /proc/${pid}/stat 2> /dev/null`;
    await fake.behave("three", "DEL", `if ${lives}; then exit 7; fi`);
    await attachments.remove(removal, never);
    assert.equal(startTime(pid), "");
    assert.deepEqual(await records(), []);
  } finally {
    await helper.close();
  }
});

describe("what a plugin leaves in its process group", () => {
  let helper: number;
  /** Starts it as a plugin does that wants it to live on: none of its pipes is held open. */
  const startHelper = (): string =>
    `sleep 1000 < /dev/null > /dev/null 2>&1 & echo $! > '${directory}/helper'`;
  const helperLives = (): boolean => startTime(helper) !== "";
  const noteHelper = async (): Promise<void> => {
    helper = Number(await readFile(join(directory, "helper"), "utf8"));
  };
  afterEach(() => {
    if (helperLives()) process.kill(helper, "SIGKILL");
  });

  test("lives on when it ended by itself, over the next ADD, DEL and start", async () => {
    await fake.behave("one", "ADD", `${startHelper()}; echo '${JSON.stringify(oneAddress)}'`);
    await attachments.add(list, attachment, never);
    await noteHelper();
    assert.deepEqual(await records(), []);
    openAgain();
    await running.killOrphaned(never);
    await attachments.remove(removal, never);
    assert.equal(helperLives(), true);
  });

  test("is ended before the next DEL when something killed it: its work goes on", async () => {
    await fake.behave("one", "ADD", `${startHelper()}; kill -KILL $$`);
    await assert.rejects(attachments.add(list, attachment, never), /SIGKILL/);
    await noteHelper();
    assert.equal(helperLives(), true);
    await attachments.remove(removal, never);
    assert.equal(helperLives(), false);
    assert.deepEqual(await records(), []);
  });
});

describe("the files of records", () => {
  const names = (): Promise<string[]> => readdir(join(directory, "running"));

  test("are one for a plugin that is started again while its file is replaced, and for one that cannot be", async () => {
    for (const [failures, outcome] of [
      [["ETXTBSY", "ETXTBSY", "ETXTBSY"], /^$/],
      [["ENOEXEC"], /neither a program/],
    ] as const) {
      const pending: string[] = [...failures];
      const stat = await readFile("/proc/self/stat", "utf8");
      // As the helper, which tells of a process that is to become the program.
      const start: StartProgram = (request, listener) => {
        const code = request.environment["CNI_COMMAND"] === "ADD" ? pending.shift() : undefined;
        if (code === undefined) return startAsChild(request, listener);
        setImmediate(() => {
          // No process has a number that large.
          listener.started(4_194_305, stat);
          listener.failed(Object.assign(new Error(code), { code }));
        });
        return { feed: () => undefined, kill: () => undefined, leave: () => undefined };
      };
      ({ running, attachments } = bed.open({ start, limits: { busyPauseMs: 1 } }));
      await rm(join(directory, "running"), { recursive: true, force: true });
      const message = await attachments.add(list, attachment, never).then(
        () => "",
        (error: unknown) => String(error),
      );
      assert.match(message, outcome);
      assert.deepEqual([(await names()).length, await records()], [1, []]);
    }
  });

  test("are used again, and made again when another program has removed them", async () => {
    await attachments.add(list, attachment, never);
    const before = await names();
    await attachments.remove(removal, never);
    assert.deepEqual([before.length, await names()], [1, before]);
    await rm(join(directory, "running"), { recursive: true });
    await fake.behave("one", "ADD", `cat '${directory}'/running/* >&2; exit 1`);
    await assert.rejects(attachments.add(list, attachment, never), new RegExp(id));
    assert.equal((await names()).length, 1);
  });

  test("have whole records after short writes, and are removed when the disk is full", async () => {
    const log = recordingLog();
    let room = Infinity;
    const write = ((file: number, bytes: Buffer, offset: number, length: number, at: number): number => {
      if (room === 0) throw Object.assign(new Error("no room"), { code: "ENOSPC" });
      const written = writeSync(file, bytes, offset, Math.min(length, 50, room), at);
      room -= written;
      return written;
    }) as typeof writeSync;
    running = new RunningPlugins(join(directory, "running"), log, write);
    const note = () => running.note({ containerId: id, type: "one", command: "ADD" }, markOf(process.pid));
    const forget = note();
    assert.deepEqual([(await records()).length, log.lines], [1, []]);
    forget("byItself");
    room = 70;
    const forgetNothing = note();
    assert.deepEqual(await names(), []);
    forgetNothing("byItself");
    assert.deepEqual(
      log.lines.map(({ message, fields }) => [message, fields["err"]]),
      [["cannot record a running CNI plugin", "no room"]],
    );
  });

  test("stay while their process lives, and are removed afterwards, as those of earlier releases", async () => {
    const { pid, startTime: started } = markOf(process.ppid) ?? assert.fail();
    await mkdir(join(directory, "running"));
    const living = `${pid}-${started}-1`;
    for (const name of [living, `${pid}-1-1`, `${id}.${pid}`])
      await writeFile(join(directory, "running", name), "");
    await running.killOrphaned(never);
    assert.deepEqual(await names(), [living]);
  });
});

/** Empty when there is no such process. */
const startTime = (pid: number): string => markOf(pid)?.startTime ?? "";
