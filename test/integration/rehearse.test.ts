/** `dockershim migrate rehearse` with the built program: verdicts, refusals, and nothing left after a kill. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
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
import { runProgram } from "../support/shim-process.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const label = "dockershim.rehearsal";

/** Two pods that run, one of them with a host port and one in the host's network, and one that is gone. */
function recordingText(): string {
  const header = {
    ...{ format: "dockershim-recording", version: 1, startedAt: "2026-01-01T00:00:00Z", server: {} },
    node: { kernel: "6.1", architecture: "x64", cpus: 2, memoryBytes: 1 },
  };
  const calls: object[] = [];
  const add = (rpc: string, request: object, response: object): void => {
    calls.push({ at: calls.length, ms: 1, rpc, request, response });
  };
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
    add("RunPodSandbox", { config }, { pod_sandbox_id: `sandbox-${name}` });
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
      const id = `${name}-${container}`;
      add("CreateContainer", { pod_sandbox_id: `sandbox-${name}`, config: made }, { container_id: id });
      add("StartContainer", { container_id: id }, {});
    }
  }
  add("StopPodSandbox", { pod_sandbox_id: "sandbox-gone" }, {});
  add("ListPodSandbox", {}, { items: [{ id: "sandbox-web" }, { id: "sandbox-older" }] });
  const lines = [header, ...calls, { end: true, calls: calls.length, dropped: 0, reason: "stopped" }];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

interface Verdict {
  readonly pods: number;
  readonly containers: number;
  readonly findings: readonly unknown[];
  readonly notes: readonly string[];
  readonly steps: readonly { readonly name: string }[];
}

await withOwnEngine(import.meta.url, [], () => {
  describe("dockershim migrate rehearse", () => {
    const bed = TestBed.ofSuite();
    const flags = ["migrate", "rehearse", "--docker-endpoint", dockerEndpoint];

    async function recording(): Promise<string> {
      const path = join(await bed.newDirectory(), "node.recording");
      await writeFile(path, recordingText());
      return path;
    }

    async function assertNothingLeft(): Promise<void> {
      assert.deepEqual(await containersWithLabel(label), []);
      const directories = (await readdir(tmpdir())).filter((name) =>
        name.startsWith("dockershim-rehearsal-"),
      );
      assert.deepEqual(directories, []);
    }

    for (const as of ["dockershim", "cri-dockerd"]) {
      test(`pods as ${as} made them are taken over and given back without a finding, and nothing is left`, async () => {
        const { code, stdout, stderr } = await runProgram([
          ...flags,
          "--as",
          as,
          "-o",
          "json",
          await recording(),
        ]);
        assert.equal(stderr, "");
        const verdict = JSON.parse(stdout) as Verdict;
        assert.deepEqual(verdict.findings, []);
        assert.equal(code, 0);
        assert.deepEqual([verdict.pods, verdict.containers], [2, 4]);
        assert.deepEqual(
          verdict.steps.map(({ name }) => name),
          ["make", "switch", "new", "after", "back", "remove"],
        );
        assert.ok(verdict.notes.some((note) => note.startsWith("1 pods were there before the recording")));
        await assertNothingLeft();
      });
    }

    test("a pod that cannot be made is a finding, and the others are rehearsed", async () => {
      const path = await recording();
      await writeFile(path, recordingText().replace('"web","namespace"', '"we b","namespace"'));
      const { code, stdout } = await runProgram([...flags, path]);
      assert.equal(code, 2, stdout);
      assert.match(stdout, /FINDING {2}make .*1 pods and 2 containers were made\n.*pod default\/we b: /);
      assert.match(stdout, /Verdict: 1 findings\./);
      await assertNothingLeft();
    });

    test("refuses a host with pods, and leaves them", async () => {
      const body = { Image: bed.image, Labels: { "io.kubernetes.docker.type": "podsandbox" } };
      const id = await createContainer("k8s_POD_a_b_c_0", body);
      try {
        const { code, stderr } = await runProgram([...flags, await recording()]);
        assert.equal(code, 1);
        assert.match(stderr, /its engine has 1 pods; use a scratch host, or --anyway/);
        assert.equal((await docker("GET", `/containers/${id}/json`)).status, 200);
        await assertNothingLeft();
      } finally {
        await removeContainer(id);
      }
    });

    test("refuses recordings that are damaged, newer or without a pod, with the next step", async () => {
      const path = join(await bed.newDirectory(), "bad.recording");
      for (const [text, message] of [
        ["", /empty or cut off/],
        ['{"format":"dockershim-recording","version":2}\n', /version 2/],
        [`${recordingText().split("\n")[0] ?? ""}\n`, /no pod that was made during it runs at its end/],
      ] as const) {
        await writeFile(path, text);
        const { code, stderr } = await runProgram([...flags, path]);
        assert.equal(code, 1);
        assert.match(stderr, message);
      }
      await assertNothingLeft();
    });

    for (const signal of ["SIGINT", "SIGKILL"] as const) {
      test(`after a ${signal} in the middle nothing is left${signal === "SIGKILL" ? " by the next run" : ""}`, async () => {
        const child = spawn(process.execPath, [builtMain, ...flags, await recording()], { stdio: "ignore" });
        const ended = once(child, "exit");
        await until("a recorded pod", async () => {
          const listed = (await dockerJson("GET", "/containers/json?all=1")) as readonly {
            Names: string[];
          }[];
          return listed.some(({ Names }) => Names[0]?.startsWith("/k8s_side_web_") === true);
        });
        child.kill(signal);
        await ended;
        if (signal === "SIGKILL") {
          assert.ok((await containersWithLabel(label)).length > 0);
          const { code, stdout } = await runProgram([...flags, await recording()]);
          assert.equal(code, 0, stdout);
        }
        await assertNothingLeft();
      });
    }
  });
});
