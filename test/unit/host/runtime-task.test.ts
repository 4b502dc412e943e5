import assert from "node:assert/strict";
import { chmod, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { checkpointTask, findRuntimeTask, resumeTask } from "../../../src/shim/host/runtime-task.js";
import { rejectsWith } from "../../support/refusals.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeProc } from "./fake-proc.js";

const containerId = "c".repeat(64);
const spec = { ociVersion: "1.0.2" };
const options = { binary_name: "runc", root: "/var/run/docker/runtime-runc" };
const shimWords = ["containerd-shim-runc-v2", "-namespace", "moby", "-id", containerId];

/** Process 20 is the container's; its parent, 10, works in the bundle of the pod's first container. */
async function fixture(
  files: Readonly<Record<string, unknown>> = { "config.json": spec, "options.json": options },
  mountNamespace = 1,
): Promise<FakeProc> {
  const fake = await FakeProc.make();
  const [first, own] = [join(fake.directory, "moby", "first"), join(fake.directory, "moby", containerId)];
  for (const path of [first, own]) await mkdir(path, { recursive: true });
  for (const [name, value] of Object.entries(files)) await writeFile(join(own, name), JSON.stringify(value));
  await fake.add("self", { mountNamespace: 1 });
  await fake.add(10, { cmdline: shimWords, mountNamespace });
  await symlink(first, fake.proc.path(10, "cwd"));
  await fake.add(20, { parent: 10, cgroup: `0::/docker/${containerId}\n` });
  return fake;
}

describe("findRuntimeTask()", () => {
  test("finds runtime, its directory and the specification, also of a container that shares its shim", async () => {
    await using fake = await fixture();
    assert.deepEqual(await findRuntimeTask({ containerId, pid: 20 }, fake.proc), {
      ...{ containerId, spec, program: "runc", root: "/var/run/docker/runtime-runc/moby" },
    });
  });

  for (const [what, files, pid, message] of [
    ["of another process", undefined, 10, /containerd shim of container .* out of reach/],
    ["of no process", undefined, 0, /containerd shim of container .* out of reach/],
    ["without a specification", { "options.json": options }, 20, /OCI specification of .* out of reach/],
    ["without its options", { "config.json": spec }, 20, /directory of the OCI runtime of .* out of reach/],
  ] as const)
    test(`is unsupported ${what}`, async () => {
      await using fake = await fixture(files);
      await rejectsWith(findRuntimeTask({ containerId, pid }, fake.proc), "unsupported", message);
    });

  test("is unsupported for an engine with other mounts, where the runtime is another file", async () => {
    await using fake = await fixture(undefined, 2);
    await rejectsWith(
      findRuntimeTask({ containerId, pid: 20 }, fake.proc),
      "unsupported",
      /mount namespaces/,
    );
  });
});

/** A program in the place of runc. */
async function standIn(script: string) {
  const directory = await temporaryDirectory();
  const program = join(directory.path, "runc");
  await writeFile(program, `#!/bin/sh\necho "$*" >> ${directory.path}/calls\n${script}\n`);
  await chmod(program, 0o755);
  const to = { images: join(directory.path, "checkpoint"), work: directory.path };
  return {
    to,
    program,
    run: (timeoutMs = 60_000, signal = new AbortController().signal) =>
      checkpointTask({ containerId, spec, program, root: "/r/moby" }, { ...to, timeoutMs, signal }),
    calls: () => readFile(join(directory.path, "calls"), "utf8"),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** Which thaws the container. */
const ending = (script: string) => standIn(`case "$*" in *resume*) exit 0;; esac; ${script}`);

describe("checkpointTask()", () => {
  test("calls the runtime for the same container, and leaves it running", async () => {
    await using runc = await standIn("exit 0");
    await runc.run();
    const { images, work } = runc.to;
    const words = ["--root /r/moby --log", `${work}/runtime.log checkpoint --image-path ${images}`];
    assert.equal(
      await runc.calls(),
      `${words.join(" ")} --work-path ${work} --leave-running ${containerId}\n`,
    );
  });

  const log = [
    "(00.000001) Error (criu/early.c:1): first",
    "(00.010000) Error (criu/x.c:5): the cause",
    "(00.020000) Error (criu/cr-dump.c:2098): Dumping FAILED.",
  ].join("\\n");
  for (const [what, script, kind, message] of [
    [
      "CRIU's own reason",
      `printf '${log}\\n' > "$7/dump.log"; echo warning >&2; echo 'criu failed: type DUMP' >&2; exit 1`,
      "unknown",
      /runc checkpoint: criu failed: type DUMP: Error \(criu\/x\.c:5\): the cause$/,
    ],
    [
      "a full disk as one",
      `echo '(00.1) Error (criu/image.c:1): write: No space left on device' > "$7/dump.log"; exit 1`,
      "exhausted",
      /No space left on device$/,
    ],
    [
      "the runtime's reason alone",
      "echo 'CRIU version check failed' >&2; exit 1",
      "unknown",
      /check failed$/,
    ],
  ] as const)
    test(`tells ${what}`, async () => {
      await using runc = await ending(script.replaceAll("$7", "$(dirname $0)"));
      await rejectsWith(runc.run(), kind, message);
    });

  test("is unsupported without the program", async () => {
    const task = { containerId, spec, program: "runc-that-nobody-has", root: "/r" };
    const { signal } = new AbortController();
    const checkpoint = checkpointTask(task, { images: "/i", work: "/w", timeoutMs: 60_000, signal });
    await rejectsWith(checkpoint, "unsupported", /^no program "runc-that-nobody-has" here$/);
  });

  const resumed = new RegExp(`--root /r/moby resume ${containerId}\\n$`);
  test("kills what does not end in time, and thaws the container that it may have left frozen", async () => {
    await using runc = await ending("exec sleep 1000");
    await rejectsWith(runc.run(200), "timeout", /checkpoint container "c+"/);
    assert.match(await runc.calls(), resumed);
  });

  for (const [what, script] of [
    ["was killed, as for want of memory", "kill -9 $$"],
    ["failed, as when its CRIU was killed", "exit 1"],
  ] as const)
    test(`thaws the container when the runtime ${what}`, async () => {
      await using runc = await ending(script);
      await rejectsWith(runc.run(), "unknown", /runc checkpoint/);
      assert.match(await runc.calls(), resumed);
    });

  test("tells when the container stays frozen", async () => {
    await using runc = await standIn(`case "$*" in *resume*) echo 'no such cgroup' >&2;; esac; exit 1`);
    const frozen = /^\S+ checkpoint; the container may be frozen: \S+ resume: no such cgroup$/;
    await rejectsWith(runc.run(), "unknown", frozen);
  });

  test("is killed when the server stops, whose end kills it, and thaws the container", async () => {
    await using runc = await ending("exec sleep 1000");
    const server = new AbortController();
    const checkpoint = runc.run(60_000, server.signal);
    server.abort(new ShimError("unavailable", "dockershim is stopping"));
    await rejectsWith(checkpoint, "unavailable", /stopping/);
    assert.match(await runc.calls(), resumed);
  });

  test("goes on when the caller leaves", async () => {
    await using runc = await ending("exit 0");
    await runc.run(60_000, AbortSignal.abort(new ShimError("cancelled", "the caller left")));
  });
});

describe("resumeTask()", () => {
  const resume = (program: string) => resumeTask({ containerId, spec, program, root: "/r/moby" });

  test("has the runtime thaw the container; one that is not frozen is no error", async () => {
    await using runc = await standIn(
      'test -e "$(dirname $0)/again" || exit 0; echo "container not paused" >&2; exit 1',
    );
    await resume(runc.program);
    assert.equal(await runc.calls(), `--root /r/moby resume ${containerId}\n`);
    await writeFile(join(runc.to.work, "again"), "");
    await resume(runc.program);
  });

  test("tells why the container stays frozen", async () => {
    await using runc = await standIn("echo 'no such cgroup' >&2; exit 1");
    await rejectsWith(resume(runc.program), "unknown", /runc resume: no such cgroup$/);
  });
});
