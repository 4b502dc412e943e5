/** Pods of an engine whose daemon.json has defaults that are not those of Kubernetes, and no default network. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { NamespaceMode } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer, pidOfContainer } from "../support/docker.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { NetworkNode } from "./pod-network-support.js";

await withOwnEngine(
  import.meta.url,
  [],
  () => {
    describe("an engine with defaults of its own", () => {
      // With "bridge": "none" pods have networks of plugins alone.
      const node = NetworkNode.ofSuite("cni");
      const options = { network: NamespaceMode.POD, pid: NamespaceMode.CONTAINER, ipc: NamespaceMode.POD };
      const config = (name: string, no_new_privs: boolean) => ({
        metadata: { name },
        linux: { security_context: { namespace_options: options, no_new_privs } },
      });

      test("no-op is not ready, says why, and refuses pods but those of the host's network", async () => {
        await node.changePlugin("no-op");
        assert.match(
          (await node.networkProblem()) ?? "",
          /no default network \("bridge": "none" in daemon\.json\)/,
        );
        const run = node.cri.RunPodSandbox({ config: node.podConfig() });
        await rejectsWith(run, "UNAVAILABLE", /no default network/);
        assert.deepEqual(await node.sandboxes(), []);
        const options = { network: NamespaceMode.NODE };
        const linux = { security_context: { namespace_options: options } };
        const pod = await node.runPod({ linux, port_mappings: [] });
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });

      test("cni is ready, and pods have addresses", async () => {
        await node.changePlugin("cni");
        assert.equal(await node.networkProblem(), undefined);
        const pod = await node.runPod();
        assert.match(await pod.ip(), /^10\.181\./);
        await node.stopAndRemove(pod.id);
        await node.assertClean();
      });

      test("containers have their own program as first process, and new privileges where they are allowed", async () => {
        await using pod = await node.runPod();
        for (const [name, noNewPrivileges, flag] of [
          ["may", false, "0"],
          ["may-not", true, "1"],
        ] as const) {
          const id = await pod.start(config(name, noNewPrivileges));
          assert.doesNotMatch(await pod.shell(id, "cat /proc/1/cmdline"), /init/);
          assert.equal(await pod.shell(id, "sed -n 's/^NoNewPrivs:.//p' /proc/1/status"), flag);
          assert.equal(await pod.shell(id, "sed -n 's/^NoNewPrivs:.//p' /proc/self/status"), flag);
        }
        const pause = await readFile(`/proc/${String(await pidOfContainer(pod.id))}/cmdline`, "utf8");
        assert.doesNotMatch(pause, /init/);
      });

      test("a missing program fails the start", async () => {
        await using pod = await node.runPod();
        const id = await pod.create({ ...config("missing", false), command: ["/absent"] });
        await rejectsWith(node.cri.StartContainer({ container_id: id }), "INVALID_ARGUMENT", /absent/);
      });

      test("containers of a pod share IPC and a /dev/shm of the usual size", async () => {
        await using pod = await node.runPod();
        const writes = await pod.start(config("writes", false));
        await pod.shell(writes, "head -c 2000000 /dev/zero > /dev/shm/two-megabytes");
        assert.match(
          await pod.shell(await pod.start(config("reads", false)), "ls /dev/shm"),
          /two-megabytes/,
        );
        const sandbox = await inspectContainer(pod.id);
        assert.deepEqual(sandbox?.Config.Healthcheck?.Test, ["NONE"]);
      });
    });
  },
  {
    bridge: "none",
    init: true,
    "no-new-privileges": true,
    "default-ipc-mode": "private",
    "default-shm-size": "1M",
  },
);
