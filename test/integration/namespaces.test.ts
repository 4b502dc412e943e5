/** Which namespaces a pod and its containers share. */
import assert from "node:assert/strict";
import { readFile, readlink } from "node:fs/promises";
import { hostname } from "node:os";
import { describe, test } from "node:test";
import { NamespaceMode } from "../../src/domain/cri.js";
import { dockerJson, inspectContainer } from "../support/docker.js";
import { hostNamespace, onEngineHost } from "../support/engine-host.js";
import { reasonForNoPrivileged } from "../support/privileged.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

const { POD, CONTAINER, NODE, TARGET } = NamespaceMode;

async function namespaceOf(containerId: string, kind: string): Promise<string> {
  const pid = (await inspectContainer(containerId))?.State.Pid ?? 0;
  return readlink(onEngineHost(`/proc/${String(pid)}/ns/${kind}`));
}

describe("namespaces", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  const withPid = (name: string, pid: NamespaceMode, target_id = "") => ({
    metadata: { name },
    linux: { security_context: { namespace_options: { pid, target_id } } },
  });

  test("pid modes: CONTAINER has its own, POD the sandbox's, TARGET another container's, NODE the host's", async () => {
    await using pod = await bed.runPod(bed.shim.cri, {
      linux: { security_context: { namespace_options: { pid: POD } } },
    });
    const own = await pod.start(withPid("own", CONTAINER));
    const shared = await pod.start(withPid("shared", POD));
    const target = await pod.start(withPid("target", TARGET, own));
    const node = await pod.start(withPid("node", NODE));
    const sandbox = await namespaceOf(pod.id, "pid");
    const host = await hostNamespace("pid");
    assert.equal(await namespaceOf(shared, "pid"), sandbox);
    assert.equal(await namespaceOf(target, "pid"), await namespaceOf(own, "pid"));
    assert.equal(await namespaceOf(node, "pid"), host);
    assert.equal(new Set([await namespaceOf(own, "pid"), sandbox, host]).size, 3);
    assert.equal((await pod.status()).linux?.namespaces?.options?.pid, POD);
  });

  test("a request that names no mode joins network, IPC and PID namespace of the sandbox, with the pod's host name", async () => {
    await using pod = await bed.runPod(bed.shim.cri, { hostname: "pod-host-name" });
    for (const [name, linux] of [
      ["no-linux", null],
      ["no-options", { security_context: {} }],
    ] as const) {
      const id = await pod.start({ metadata: { name }, linux });
      for (const kind of ["net", "ipc", "pid"]) {
        assert.equal(await namespaceOf(id, kind), await namespaceOf(pod.id, kind), `${name}: ${kind}`);
        assert.notEqual(await namespaceOf(id, kind), await hostNamespace(kind), kind);
      }
      assert.equal(await pod.shell(id, "hostname"), "pod-host-name");
    }
  });

  test("a pod in the host's namespaces has the node's interfaces and host name, no IP of its own, and the DNS that it asks for", async () => {
    const options = { network: NODE, pid: NODE, ipc: NODE };
    const linux = { security_context: { namespace_options: options } };
    await using pod = await bed.runPod(bed.shim.cri, { linux, dns_config: { servers: ["10.96.0.10"] } });
    const id = await pod.start({ linux });
    assert.equal(await pod.shell(id, "grep ^nameserver /etc/resolv.conf"), "nameserver 10.96.0.10");
    for (const kind of ["net", "ipc", "pid"])
      assert.equal(await namespaceOf(id, kind), await hostNamespace(kind), kind);
    assert.equal(await pod.shell(id, "hostname"), hostname());
    const status = await pod.status();
    assert.equal(status.network?.ip, "");
    assert.equal(status.linux?.namespaces?.options?.network, NODE);
  });

  test("cgroup: the node's when privileged or with cgroup version 1, else one of its own", async (context) => {
    const { CgroupVersion: version } = (await dockerJson("GET", "/info")) as {
      readonly CgroupVersion: string;
    };
    const host = await hostNamespace("cgroup");
    const isHosts = async (id: string): Promise<boolean> => (await namespaceOf(id, "cgroup")) === host;
    await using pod = await bed.runPod(bed.shim.cri);
    for (const id of [pod.id, await pod.start()]) assert.equal(await isHosts(id), version === "1");
    const reason = await reasonForNoPrivileged();
    if (reason !== false) {
      context.diagnostic(reason);
      return;
    }
    const linux = { security_context: { privileged: true } };
    await using privileged = await bed.runPod(bed.shim.cri, { linux });
    const usual = await privileged.start({ metadata: { name: "usual" } });
    const same = await privileged.start({ metadata: { name: "privileged" }, linux });
    assert.deepEqual(await Promise.all([privileged.id, same].map(isHosts)), [true, true]);
    assert.equal(await isHosts(usual), version === "1");
  });

  test("sysctls apply to the pod alone", async () => {
    const here = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8");
    await using pod = await bed.runPod(bed.shim.cri, {
      linux: { sysctls: { "net.ipv4.ip_local_port_range": "20000 20100", "kernel.shm_rmid_forced": "1" } },
    });
    const id = await pod.start();
    assert.match(await pod.shell(id, "cat /proc/sys/net/ipv4/ip_local_port_range"), /^20000\s+20100$/);
    assert.equal(await pod.shell(id, "cat /proc/sys/kernel/shm_rmid_forced"), "1");
    assert.equal(await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8"), here);
  });
});
