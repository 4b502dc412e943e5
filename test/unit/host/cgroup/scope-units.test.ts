import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ContainerCgroup } from "../../../../src/shim/host/cgroup/cgroup-paths.js";
import { setUnitProperties } from "../../../../src/shim/host/cgroup/scope-units.js";
import { idOf } from "../../../fakes/snapshots.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const { signal } = new AbortController();

describe("setUnitProperties()", () => {
  async function newProgram(directory: string, script: string): Promise<string> {
    const program = join(directory, "systemctl");
    await writeFile(program, `#!/bin/sh\n${script}\n`);
    await chmod(program, 0o700);
    return program;
  }

  test("names unit and properties as words of their own", async () => {
    await using directory = await temporaryDirectory();
    const program = await newProgram(directory.path, 'printf "%s\\n" "$@" > "$(dirname "$0")/words"');
    await setUnitProperties("docker-1.scope", ["MemoryHigh=5", "CPUQuota="], signal, program);
    assert.deepEqual((await readFile(join(directory.path, "words"), "utf8")).trim().split("\n"), [
      ...["--no-ask-password", "set-property", "--runtime", "--", "docker-1.scope"],
      ...["MemoryHigh=5", "CPUQuota="],
    ]);
  });

  test("throws what systemd says, and says when there is no program", async () => {
    await using directory = await temporaryDirectory();
    const program = await newProgram(directory.path, "echo Unit not loaded. >&2; exit 1");
    await assert.rejects(setUnitProperties("x.scope", ["MemoryHigh=5"], signal, program), {
      kind: "unavailable",
      message: 'set MemoryHigh=5 of "x.scope": Unit not loaded.',
    });
    const missing = join(directory.path, "none");
    await assert.rejects(setUnitProperties("x.scope", ["MemoryHigh=5"], signal, missing), {
      kind: "unsupported",
    });
  });

  test("sets the others when systemd does not know one", async () => {
    await using directory = await temporaryDirectory();
    const program = await newProgram(
      directory.path,
      'case "$*" in *AllowedCPUs*) echo Unknown assignment. >&2; exit 1;; esac; shift 5; echo "$@" >> "$(dirname "$0")/set"',
    );
    const assignments = ["MemoryHigh=5", "AllowedCPUs=1", "TasksMax=7"];
    await assert.rejects(setUnitProperties("x.scope", assignments, signal, program), {
      message: 'set AllowedCPUs=1 of "x.scope": Unknown assignment.',
    });
    assert.equal(await readFile(join(directory.path, "set"), "utf8"), "MemoryHigh=5\nTasksMax=7\n");
  });

  test("ends with its signal", async () => {
    await using directory = await temporaryDirectory();
    const program = await newProgram(directory.path, "exec sleep 100");
    const controller = new AbortController();
    const setting = setUnitProperties("x.scope", ["MemoryHigh=5"], controller.signal, program);
    controller.abort(new Error("the caller has left"));
    await assert.rejects(setting, /the caller has left/);
  });
});

for (const [what, path, expected] of [
  ["of the systemd driver", "/kubepods.slice/kubepods-a.slice/docker-ID.scope", "docker-ID.scope"],
  ["below which the container has cgroups", "/system.slice/docker-ID.scope/init.scope", "docker-ID.scope"],
  ["of cgroupfs", "/docker/ID", undefined],
  ["of a rootless engine", "/user.slice/user-1.slice/user@1.service/user.slice/docker-ID.scope", undefined],
] as const) {
  test(`the unit of a cgroup ${what} is ${expected}`, () => {
    const id = idOf("3f");
    const cgroup = new ContainerCgroup(id, `0::${path.replace("ID", id)}\n`, new Map());
    assert.equal(cgroup.scope, expected?.replace("ID", id));
  });
}
