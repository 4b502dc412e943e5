/**
 * With the systemd driver and cgroup version 2, systemd writes the files of containers' cgroups again whenever it
 * loads its units again (`systemctl daemon-reload`). Needs a systemd that is the engine's.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import type { Answer, ContainerConfig, LinuxContainerResources } from "../../src/domain/cri.js";
import { dockerJson, inspectContainer } from "../support/docker.js";
import { needsEngineHost } from "../support/engine-host.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const run = promisify(execFile);
const mebibyte = 1024 * 1024;

async function reasonForNoReload(): Promise<string | false> {
  const info = (await dockerJson("GET", "/info")) as Readonly<Record<string, unknown>>;
  const has = `${String(info["CgroupDriver"])} on cgroup version ${String(info["CgroupVersion"])}`;
  return has === "systemd on cgroup version 2" ? false : `the engine's cgroup driver is ${has}`;
}

async function pathOf(containerId: string, file: string): Promise<string> {
  const pid = (await inspectContainer(containerId))?.State.Pid ?? 0;
  const cgroup = (await readFile(`/proc/${String(pid)}/cgroup`, "utf8")).trim().replace("0::", "");
  return join("/sys/fs/cgroup", cgroup, file);
}

async function read(containerId: string, file: string): Promise<string> {
  return (await readFile(await pathOf(containerId, file), "utf8")).trim();
}

function readAll(containerId: string, files: readonly string[]): Promise<readonly string[]> {
  return Promise.all(files.map((file) => read(containerId, file)));
}

async function properties(containerId: string, names: readonly string[]): Promise<readonly string[]> {
  const words = ["show", `docker-${containerId}.scope`, ...names.flatMap((name) => ["-p", name])];
  const { stdout } = await run("systemctl", words);
  const lines = stdout.trim().split("\n");
  return names.map((name) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? "");
}

/** A CPU limit that is no property of the container's scope ends when systemd writes the files of the scope. */
async function reload(containerId: string): Promise<void> {
  await writeFile(await pathOf(containerId, "cpu.max"), "90000 100000");
  await run("systemctl", ["daemon-reload"]);
  await until("systemd to write cgroups", async () => (await read(containerId, "cpu.max")).startsWith("max"));
}

describe(
  "limits of a container after systemctl daemon-reload",
  {
    skip: (await reasonToSkip()) || needsEngineHost("cgroups") || (await reasonForNoReload().catch(String)),
    timeout: 600_000,
  },
  () => {
    const bed = TestBed.ofSuite({ shim: {} });
    const settings = (name: string, resources: Answer<LinuxContainerResources>): Answer<ContainerConfig> => ({
      metadata: { name },
      linux: { resources },
    });

    test("properties of its scope are in force at once, what is none again after a while", async () => {
      await using pod = await bed.runPod(bed.shim.cri);
      const unified = {
        "memory.min": String(4 * mebibyte),
        "memory.low": String(8 * mebibyte),
        "memory.high": String(48 * mebibyte),
        "memory.swap.max": "0",
        "pids.max": "100",
        "cpu.weight": "250",
        "memory.oom.group": "1",
      };
      const id = await pod.start(
        // The engine's own CPU weight is another one.
        settings("main", { memory_limit_in_bytes: String(64 * mebibyte), cpu_shares: "512", unified }),
      );
      const files = Object.keys(unified);
      assert.deepEqual(await readAll(id, files), Object.values(unified));
      await reload(id);
      assert.deepEqual(
        (await readAll(id, files)).filter((_, index) => files[index] !== "memory.oom.group"),
        Object.values(unified).slice(0, -1),
      );
      assert.deepEqual(
        await properties(id, [
          "MemoryMin",
          "MemoryLow",
          "MemoryHigh",
          "MemorySwapMax",
          "TasksMax",
          "CPUWeight",
        ]),
        Object.values(unified).slice(0, -1),
      );
      await until("memory.oom.group is 1", async () => (await read(id, "memory.oom.group")) === "1");
    });

    test("updated limits stay, up and down", async () => {
      await using pod = await bed.runPod(bed.shim.cri);
      const files = ["memory.max", "memory.high", "memory.swap.max", "cpu.weight"];
      const of = (mebibytes: number, weight: string): Answer<LinuxContainerResources> => ({
        memory_limit_in_bytes: String(2 * mebibytes * mebibyte),
        unified: {
          "memory.high": String(mebibytes * mebibyte),
          "memory.swap.max": String(mebibytes * mebibyte),
          "cpu.weight": weight,
          "memory.oom.group": "1",
        },
      });
      const id = await pod.start(settings("main", of(40, "200")));
      for (const [mebibytes, weight] of [
        [50, "300"],
        [40, "200"],
      ] as const) {
        await bed.shim.cri.UpdateContainerResources({ container_id: id, linux: of(mebibytes, weight) });
        const expected = [2 * mebibytes, mebibytes, mebibytes].map((count) => String(count * mebibyte));
        assert.deepEqual(await readAll(id, files), [...expected, weight]);
        await until("memory.oom.group is 1", async () => (await read(id, "memory.oom.group")) === "1");
        await reload(id);
        assert.deepEqual(await readAll(id, files), [...expected, weight]);
      }
    });
  },
);
