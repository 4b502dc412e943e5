/** What one pod costs: calls with paths, and requests to the engine. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { silentLogger } from "../../../src/lib/log.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { HeldNamespaces } from "../../../src/lib/linux/held-namespaces.js";
import { KernelNamespaces, type NamespaceProof } from "../../../src/lib/linux/network-namespaces.js";
import { createCniPlugin } from "../../../src/network/cni/create-cni-plugin.js";
import { openStores } from "../../../src/shim/app/open-stores.js";
import { procCgroup } from "../../../src/shim/host/processes/proc-files.js";
import { LocalHost } from "../../../src/shim/host/local-host.js";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { programPath } from "../../../src/shim/native/programs.js";
import { FileCalls } from "../../support/file-calls.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { containerConfig, podMetadata, runRequest, sandboxConfig } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";
import { until } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeNatTable, FakePlugins } from "../network/cni/fake-plugins.js";

/** What the test itself does is not counted. */
const { mkdirSync, readFileSync, writeFileSync } = fs;

/** The process of the test stands for a pod: its namespace is that of the node. */
class NamespacesOfPods extends KernelNamespaces {
  override prove(path: string): NamespaceProof | undefined {
    const proof = super.prove(path);
    return proof && { ...proof, own: false };
  }
}

const logEntry = '{"log":"hello\\n","stream":"stdout","time":"2026-01-01T00:00:00.000000000Z"}\n';
const mostCalls = 60;
const mostRequests = 13;

test(`one pod with one container takes at most ${mostCalls} calls with paths, and ${mostRequests} requests`, async () => {
  await using directory = await temporaryDirectory();
  await using plugins = await FakePlugins.create("bridge", "portmap", "loopback");
  const at = (...names: readonly string[]): string => join(directory.path, ...names);
  const log = silentLogger();
  const lifetime = new Lifetime(log);
  const pause = spawn("sleep", ["1000"], { stdio: "ignore" });
  const netns = `/proc/${pause.pid ?? 0}/ns/net`;
  const namespaces = new NamespacesOfPods();
  for (const name of ["net.d", "pods", "docker"]) mkdirSync(at(name));
  const list = {
    cniVersion: "1.0.0",
    name: "net",
    plugins: [{ type: "bridge", ipMasq: true }, { type: "portmap" }],
  };
  writeFileSync(at("net.d", "10-net.conflist"), JSON.stringify(list));
  const stores = await openStores({ stateDir: at("state"), programName: "dockershim" }, log, lifetime);
  const helper = new HelperProcess({ program: () => programPath("helper", process.arch, ""), log });
  const network = createCniPlugin({
    ...{
      reason: "test",
      confDir: at("net.d"),
      binDirs: [plugins.binDir],
      cacheDir: at("cni"),
      log,
      namespaces: new HeldNamespaces(namespaces),
    },
    ...{ flusher: stores.flusher, natTables: async () => [new FakeNatTable()], start: helper.start },
  });
  await network.start(new AbortController().signal);
  const local = new LocalHost(nodeFacts(), log, namespaces);
  const { identity: netnsIdentity = "" } = namespaces.look(netns) ?? {};
  await using shim = await TestShim.start({
    logFormat: "cri",
    stores,
    network,
    prepare: ({ host, engine, journal }) => {
      engine.containers.logRoot = at("docker");
      host.networkNamespace = (sandbox) => {
        // No cgroup of this process has the sandbox's id; all before that is done.
        local.networkNamespace({ ...sandbox, state: { ...sandbox.state, pid: pause.pid ?? 0 } });
        return { netns, netnsIdentity };
      };
      host.proveNetworkNamespace = () => {
        const proof = namespaces.prove(netns);
        procCgroup(proof?.directory ?? "");
        return { netns, netnsIdentity, proof };
      };
      journal.afterStep = ({ port, verb, args: [id] }) => {
        if (port !== "engine") return;
        // As the engine has them: the directory since the create, the file since the start.
        mkdirSync(at("docker", String(id)), { recursive: true });
        if (verb === "startContainer")
          writeFileSync(at("docker", String(id), `${String(id)}-json.log`), logEntry);
      };
    },
  });

  async function live(name: string): Promise<void> {
    const metadata = podMetadata(name);
    const log_directory = at("pods", name);
    mkdirSync(join(log_directory, "main"), { recursive: true });
    const id = await shim.runSandbox(runRequest({ metadata, log_directory }));
    const { container_id: container } = await shim.rpcs.CreateContainer(
      {
        pod_sandbox_id: id,
        config: containerConfig(),
        sandbox_config: sandboxConfig({ metadata, log_directory }),
      },
      shim.call("CreateContainer"),
    );
    assert.ok(container);
    await shim.startContainer(container);
    await until(
      "its log is written",
      () => readFileSync(join(log_directory, "main", "0.log"), "utf8") !== "",
    );
    await shim.stopContainer(container);
    await shim.removeContainer(container);
    await shim.stopSandbox(id);
    await shim.removeSandbox(id);
  }

  try {
    await live("first");
    const requests = shim.engine.calls.length;
    using calls = new FileCalls();
    await live("second");
    const { made } = calls;
    assert.ok(made.length <= mostCalls, `${made.length} calls:\n${made.join("\n")}`);
    const asked = shim.engine.calls.slice(requests).map(({ verb }) => verb);
    assert.ok(asked.length <= mostRequests, `${asked.length} requests: ${asked.join(", ")}`);
    assert.deepEqual((await plugins.order()).slice(4), [
      "ADD bridge",
      "ADD portmap",
      "DEL portmap",
      "DEL bridge",
    ]);
  } finally {
    pause.kill("SIGKILL");
    await once(pause, "exit");
    await network.stop();
    await helper.close();
    await lifetime.close();
  }
});
