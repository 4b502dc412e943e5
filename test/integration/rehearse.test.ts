/** `dockershim migrate rehearse` with the built program: verdicts, refusals, and nothing left after a kill. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import {
  containersWithLabel,
  createContainer,
  docker,
  dockerEndpoint,
  dockerJson,
  removeContainer,
} from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { builtMain } from "../../scripts/setup/paths.mjs";
import { type RecordedCall, recordingOf } from "../support/recording-text.js";
import { runProgram } from "../support/shim-process.js";
import { long, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command } from "./kubenet-support.js";

const label = "dockershim.rehearsal";

/** An id as Docker gives. */
const idOf = (name: string): string => createHash("sha256").update(name).digest("hex");
/** As cri-dockerd answers Version. */
const criDockerdVersion = { runtime_name: "docker", runtime_api_version: "v1" };

/** Two pods that run, one of them with a host port and one in the host's network, and one that is gone. */
function recordingText(): string {
  const calls: RecordedCall[] = [];
  const add = (...call: RecordedCall): void => void calls.push(call);
  for (const [name, network] of [
    ["web", 0],
    ["proxy", 2],
    ["gone", 0],
  ] as const) {
    const config = {
      metadata: { name, namespace: "default", uid: `uid-${name}`, attempt: 2 },
      log_directory: `/var/log/pods/default_${name}_uid-${name}`,
      labels: { app: name, "io.kubernetes.pod.name": name },
      annotations: { "kubernetes.io/config.source": "api" },
      ...(name === "web" ? { port_mappings: [{ container_port: 80, host_port: 28_180 }] } : {}),
      linux: {
        cgroup_parent: "/kubepods/besteffort/pod1",
        security_context: { namespace_options: { network, pid: 1 } },
      },
    };
    add("RunPodSandbox", { config }, { pod_sandbox_id: idOf(name) });
    for (const [number, container] of ["main", "side"].entries()) {
      const made = {
        metadata: { name: container, attempt: 7 + number },
        image: { image: `sha256:${"ab".repeat(32)}` },
        command: ["/bin/app"],
        envs: [{ key: "A", value: { base64: "Yg==" } }],
        mounts: [{ host_path: "/var/lib/kubelet/x", container_path: "/x" }],
        labels: { "io.kubernetes.container.name": container },
        annotations: { "io.kubernetes.container.hash": "abcd" },
        log_path: `${container}/7.log`,
        linux: {
          security_context: { namespace_options: { network, pid: 1 }, run_as_user: { value: "1000" } },
        },
      };
      const id = idOf(`${name}-${container}`);
      add("CreateContainer", { pod_sandbox_id: idOf(name), config: made }, { container_id: id });
      add("StartContainer", { container_id: id }, {});
    }
  }
  const metadata = { name: "web", namespace: "default", uid: "uid-web", attempt: 2 };
  const options = { pid: 1, target_id: "" };
  const annotations = { "kubernetes.io/config.source": "api" };
  const status = {
    ...{ id: idOf("web"), metadata, created_at: "1", network: { ip: "10.1.2.3" } },
    ...{ labels: { app: "web", "io.kubernetes.pod.name": "web", "of.the.image": "x" } },
    ...{ annotations, linux: { namespaces: { options } }, runtime_handler: "runc" },
  };
  add("PodSandboxStatus", { pod_sandbox_id: idOf("web") }, { status });
  add("StopPodSandbox", { pod_sandbox_id: idOf("gone") }, {});
  add(
    "ListPodSandbox",
    {},
    { items: [{ ...status, annotations, network: undefined, linux: undefined }, { id: idOf("older") }] },
  );
  return recordingOf(calls, criDockerdVersion);
}

interface Verdict {
  readonly pods: number;
  readonly containers: number;
  readonly findings: readonly unknown[];
  readonly notes: readonly string[];
  readonly steps: readonly { readonly name: string; readonly did: string }[];
}

await withOwnEngine(import.meta.url, [], () => {
  describe("dockershim migrate rehearse", () => {
    const bed = TestBed.ofSuite();
    const flags = ["migrate", "rehearse", "--docker-endpoint", dockerEndpoint];
    // Rehearsals of other files have theirs in the host's directory for temporary files.
    let temporary: Readonly<Record<"TMPDIR", string>>;
    before(async () => {
      temporary = { TMPDIR: await bed.newDirectory() };
    });

    async function recording(): Promise<string> {
      const path = join(await bed.newDirectory(), "node.recording");
      await writeFile(path, recordingText());
      return path;
    }

    async function assertNothingLeft(): Promise<void> {
      assert.deepEqual(await containersWithLabel(label), []);
      const directories = (await readdir(temporary.TMPDIR)).filter((name) =>
        name.startsWith("dockershim-rehearsal-"),
      );
      assert.deepEqual(directories, []);
    }

    /** What network plugins make on a host. */
    async function hostNetwork(): Promise<readonly string[]> {
      const links = await command("ip", "-brief", "link");
      const rules = await command("iptables-save");
      const files = await readdir("/var/lib/cni", { recursive: true }).catch(() => ["no directory"]);
      return [links, rules.replaceAll(/^#.*$|\[\d+:\d+\]/gm, ""), files.join("\n")];
    }

    for (const [plugin, as] of [
      ["cni", "dockershim"],
      ["cni", "cri-dockerd"],
      ["kubenet", "dockershim"],
      ["no-op", "dockershim"],
    ] as const) {
      // Without `--long` each maker once; migration-nodes.test.ts rehearses no-op.
      if (!long && (plugin === "no-op" || (plugin === "cni" && as === "dockershim"))) continue;
      test(`pods as ${as} made them with ${plugin} are taken over and given back, and nothing is left`, async () => {
        const before = await hostNetwork();
        const own = ["--as", as, "--network-plugin", plugin, "-o", "json"];
        const { code, stdout, stderr } = await runProgram([...flags, ...own, await recording()], temporary);
        assert.equal(stderr, "");
        const verdict = JSON.parse(stdout) as Verdict;
        // One of them would be that the pod has no address: the recorded one had.
        assert.deepEqual(verdict.findings, []);
        assert.equal(code, 0);
        assert.deepEqual([verdict.pods, verdict.containers], [2, 4]);
        assert.deepEqual(
          verdict.steps.map(({ name }) => name),
          ["make", "switch", "new", "after", "back", "remove"],
        );
        assert.match(verdict.steps[1]?.did ?? "", /2 recorded answers were compared/);
        assert.ok(verdict.notes.some((note) => note.startsWith("1 pods were there before the recording")));
        await assertNothingLeft();
        // With no-op the engine works on its own bridge and rules.
        if (plugin !== "no-op") assert.deepEqual(await hostNetwork(), before);
      });
    }

    test("a pod of which only a part can be made is one finding, and is removed like the others", async () => {
      const path = await recording();
      await writeFile(path, recordingText().replace('"name":"side"', '"name":"si de"'));
      const { code, stdout } = await runProgram([...flags, path], temporary);
      assert.equal(code, 2, stdout);
      assert.match(stdout, /FINDING {2}make .*1 pods and 2 containers were made\n.*pod default\/web: /);
      assert.match(stdout, /Verdict: 1 findings\./);
      await assertNothingLeft();
    });

    test("refuses a host with pods, and leaves them", async () => {
      const body = { Image: bed.image, Labels: { "io.kubernetes.docker.type": "podsandbox" } };
      const id = await createContainer("k8s_POD_a_b_c_0", body);
      try {
        const { code, stderr } = await runProgram([...flags, await recording()], temporary);
        assert.equal(code, 1);
        assert.match(stderr, /its engine has 1 pods; use a scratch host, or --anyway/);
        assert.equal((await docker("GET", `/containers/${id}/json`)).status, 200);
        await assertNothingLeft();
      } finally {
        await removeContainer(id);
      }
    });

    for (const signal of ["SIGINT", "SIGKILL"] as const) {
      test(`after a ${signal} in the middle nothing is left`, async () => {
        const child = await startUntil("side_web", await recording());
        const inside = await childrenOf(child.pid ?? 0);
        child.kill(signal);
        await until("the end", async () => (await running(inside)).length === 0);
        await assertNothingLeft();
      });
    }

    test("after a kill of all its processes, the next run removes what was left", async () => {
      const path = await recording();
      // The last one: the engine would make one that it is just asked for after the next run has looked.
      const child = await startUntil("side_proxy", path);
      const inside = await childrenOf(child.pid ?? 0);
      const ended = once(child, "exit");
      for (const pid of [child.pid ?? 0, ...inside]) process.kill(pid, "SIGKILL");
      await ended;
      assert.ok((await containersWithLabel(label)).length > 0);
      const { code, stdout } = await runProgram([...flags, path], temporary);
      assert.equal(code, 0, stdout);
      await assertNothingLeft();
    });

    /** Returns when it has made container `last`. */
    async function startUntil(last: string, path: string): Promise<ChildProcess> {
      const env = { ...process.env, ...temporary };
      const child = spawn(process.execPath, [builtMain, ...flags, path], { stdio: "ignore", env });
      await until(`container ${last}`, async () => {
        const listed = (await dockerJson("GET", "/containers/json?all=1")) as readonly { Names: string[] }[];
        return listed.some(({ Names }) => Names[0]?.startsWith(`/k8s_${last}_`) === true);
      });
      return child;
    }
  });
});

async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  const pids = text.split(" ").filter((word) => word !== "");
  // 0 would be the test's own process group.
  assert.ok(pids.length > 0, `process ${pid} has no child`);
  return pids.map(Number);
}

async function running(pids: readonly number[]): Promise<readonly number[]> {
  const states = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  );
  return pids.filter((_, number) => states[number] !== "");
}
