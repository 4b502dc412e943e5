/** The pod's address, its host ports, and resolv.conf, with the fallback network plugin. */
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { Protocol } from "../../src/domain/cri.js";
import { docker, inspectContainer } from "../support/docker.js";
import {
  fetchOnEngineHost,
  isEngineElsewhere,
  needsEngineHost,
  onEngineHost,
  pidOnEngineHost,
} from "../support/engine-host.js";
import { freePort } from "../support/registry.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const webServer = [
  "sh",
  "-c",
  "mkdir /tmp/www && echo hello > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www",
];

/** The engine writes the settings itself, among comments, where its files are out of reach; 20.10 in another order. */
function settingsOf(resolvConf: string): string {
  if (!isEngineElsewhere) return resolvConf;
  const lines = resolvConf.replace(/^(#.*)?\n/gm, "").split(/(?<=\n)/);
  return ["nameserver", "search", "options"]
    .flatMap((keyword) => lines.filter((line) => line.startsWith(keyword)))
    .join("");
}

async function get(url: string): Promise<string> {
  return until(`an answer from ${url}`, async () => {
    try {
      return await fetchOnEngineHost(url, 2_000);
    } catch {
      return undefined; // The server is not up yet.
    }
  });
}

describe("the pod's network", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  test("the pod answers on the IP of its status, which is gone when it is stopped", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    await pod.start({ command: webServer });
    const ip = await pod.ip();
    assert.equal(await get(`http://${ip}:8080/`), "hello\n");
    await pod.stop();
    assert.equal(await pod.ip(), "");
  });

  test("a host port leads to the pod, on the host IP of the request only; the checkpoint keeps all mappings", async () => {
    const port = await freePort();
    await using pod = await bed.runPod(bed.shim.cri, {
      port_mappings: [
        { protocol: Protocol.TCP, container_port: 8080, host_port: port, host_ip: "127.0.0.1" },
        { protocol: Protocol.UDP, container_port: 53 },
      ],
    });
    await pod.start({ command: webServer });
    assert.equal(await get(`http://127.0.0.1:${String(port)}/`), "hello\n");
    const listeners = await readFile(onEngineHost(`/proc/${pidOnEngineHost}/net/tcp`), "utf8");
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    assert.match(listeners, new RegExp(` 0100007F:${hex} `));
    assert.doesNotMatch(listeners, new RegExp(` 00000000:${hex} `));
    const checkpoint = await readFile(`${bed.shim.stateDirectory}/sandbox/${pod.id}`, "utf8");
    assert.deepEqual((JSON.parse(checkpoint) as { data: object }).data, {
      port_mappings: [
        { protocol: "tcp", container_port: 8080, host_port: port, host_ip: "127.0.0.1" },
        { protocol: "udp", container_port: 53, host_port: 0 },
      ],
    });
    await pod.stop();
    // Free again: another pod can have it.
    await using next = await bed.runPod(bed.shim.cri, {
      port_mappings: [{ protocol: Protocol.TCP, container_port: 8080, host_port: port }],
    });
    assert.notEqual(next.id, pod.id);
  });

  const ofFiles = { skip: needsEngineHost("files") };

  test("resolv.conf: every container sees what the pod asked for, in the file that Docker made", async () => {
    const dns_config = {
      servers: ["10.96.0.10", "2001:db8::1"],
      searches: ["default.svc.cluster.local", "cluster.local"],
      options: ["ndots:5", "timeout:1"],
    };
    const expected =
      "nameserver 10.96.0.10\nnameserver 2001:db8::1\nsearch default.svc.cluster.local cluster.local\noptions ndots:5 timeout:1\n";
    await using pod = await bed.runPod(bed.shim.cri, { dns_config });
    const path = onEngineHost((await inspectContainer(pod.id))?.ResolvConfPath ?? "");
    const { ino } = await stat(path);
    assert.equal(settingsOf(await readFile(path, "utf8")), expected);
    const ids = [
      await pod.start({ metadata: { name: "one" } }),
      await pod.start({ metadata: { name: "two" } }),
    ];
    for (const id of ids) {
      assert.equal(settingsOf(`${await pod.shell(id, "cat /etc/resolv.conf")}\n`), expected);
      assert.equal(await pod.shell(id, "stat -c %i /etc/resolv.conf"), String(ino));
    }
    assert.equal((await stat(path)).ino, ino);
  });

  test("resolv.conf is the pod's again after `docker restart` of the pause container", ofFiles, async () => {
    await using pod = await bed.runPod(bed.shim.cri, { dns_config: { servers: ["10.96.0.10"] } });
    const path = onEngineHost((await inspectContainer(pod.id))?.ResolvConfPath ?? "");
    const expected = "nameserver 10.96.0.10\n";
    assert.equal(settingsOf(await readFile(path, "utf8")), expected);
    // As engines do that write their own one.
    await writeFile(path, "nameserver 192.0.2.1\n");
    await docker("POST", `/containers/${pod.id}/restart?t=1`);
    await until("it is the pod's", async () => (await readFile(path, "utf8")) === expected);
    await bed.shim.untilLogged(new RegExp(`${pod.id}.*rewrote resolv.conf of a sandbox, it was not the pod`));
  });
});
