/** Metrics, health and traces of the whole program. */
import assert from "node:assert/strict";
import { readFile, rm } from "node:fs/promises";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { basename, dirname, join } from "node:path";
import { describe, test } from "node:test";
import { isEngineElsewhere } from "../support/engine-host.js";
import { startOtlpReceiver, treeOf } from "../support/otlp-receiver.js";
import { openFiles } from "../support/processes.js";
import { EngineProxy } from "../support/engine-proxy.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { parsePrometheusText } from "../support/prometheus-text.js";

/** Through the socket of a shim's metrics. */
async function get(socket: string, path: string): Promise<{ status: number; body: string }> {
  const outgoing = request({ socketPath: socket, path, agent: false }).end();
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  let body = "";
  for await (const chunk of incoming.setEncoding("utf8")) body += String(chunk);
  return { status: incoming.statusCode ?? 0, body };
}

/** TCP ports and paths of unix sockets on which the process listens. */
async function listening(pid: number): Promise<readonly string[]> {
  const own = new Set(
    (await openFiles(pid)).flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []),
  );
  const table = async (name: string): Promise<readonly (readonly string[])[]> =>
    (await readFile(`/proc/${String(pid)}/net/${name}`, "utf8"))
      .split("\n")
      .map((line) => line.trim().split(/\s+/));
  const tcp = [...(await table("tcp")), ...(await table("tcp6"))].filter(
    (columns) => columns[3] === "0A" && own.has(columns[9] ?? ""),
  );
  const unix = (await table("unix")).filter(
    (columns) => columns[3] === "00010000" && own.has(columns[6] ?? ""),
  );
  return [...tcp.map(() => "tcp"), ...unix.map((columns) => columns[7] ?? "")].sort();
}

describe("metrics", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  test("by default nothing listens but the CRI, cAdvisor's socket, the claim of the state directory and the streaming server", async () => {
    const shim = await bed.startShim();
    // Unix sockets are bound under temporary names beside their own.
    const all = (await listening(shim.pid)).map((one) => (one === "tcp" ? one : dirname(one)));
    // Over ssh, the way to the engine is a private socket.
    const places = all.filter((one) => !basename(one).startsWith("dockershim-ssh-"));
    const expected = [dirname(shim.socket), dirname(shim.cadvisorSocket), shim.stateDirectory, "tcp"];
    assert.deepEqual(places.sort(), expected.sort());
  });

  test("values follow what a kubelet does, and /readyz the engine", async () => {
    const directory = await bed.newDirectory();
    const engineSocket = join(directory, "engine.sock");
    const proxy = bed.own(await EngineProxy.listen(engineSocket));
    const socket = join(directory, "metrics.sock");
    const receiver = bed.own(await startOtlpReceiver());
    const shim = await bed.startShim({
      directory,
      dockerEndpoint: `unix://${engineSocket}`,
      flags: [
        ...[`--metrics-bind-address=unix://${socket}`, "--metrics-page"],
        ...[`--otlp-endpoint=127.0.0.1:${receiver.port}`, "--otlp-sampling-rate-per-million=1000000"],
      ],
    });
    const scrape = async () => parsePrometheusText((await get(socket, "/metrics")).body);
    const before = await scrape();
    assert.equal(before.value("dockershim_engine_link", { state: "live" }), 1);
    assert.equal(before.value("dockershim_engine_info"), 1);
    assert.equal(before.value("dockershim_network_plugin_ready", { plugin: "kubernetes.io/no-op" }), 1);
    const sandboxesBefore = before.value("dockershim_sandboxes", { state: "ready" }) ?? 0;

    const pod = await bed.runPod(shim.cri);
    await pod.start();
    await assert.rejects(shim.cri.ContainerStatus({ container_id: "0".repeat(64) }));
    const after = await scrape();
    const rpcs = "dockershim_cri_requests_total";
    assert.equal(after.value(rpcs, { rpc: "RunPodSandbox", code: "OK" }), 1);
    assert.equal(after.value(rpcs, { rpc: "ContainerStatus", code: "NOT_FOUND" }), 1);
    assert.equal(after.value("dockershim_cri_requests_duration_seconds_count", { rpc: "RunPodSandbox" }), 1);
    const operation_type = "create_container";
    assert.ok((after.value("kubelet_docker_operations_total", { operation_type }) ?? 0) >= 2);
    assert.ok((after.value("kubelet_docker_operations_duration_seconds_sum", { operation_type }) ?? 0) > 0);
    const setUp = { operation_type: "set_up_pod" };
    assert.equal(after.value("kubelet_network_plugin_operations_total", setUp), 1);
    assert.equal(after.value("dockershim_sandboxes", { state: "ready" }), sandboxesBefore + 1);
    assert.ok(
      (after.value("dockershim_container_logs", { source: isEngineElsewhere ? "api" : "file" }) ?? 0) >= 1,
    );
    assert.deepEqual(await get(socket, "/readyz"), {
      status: 200,
      body: "[+]RuntimeReady ok\n[+]NetworkReady ok\nreadyz check passed\n",
    });

    const call = "runtime.v1.RuntimeService/RunPodSandbox";
    const sent = () => receiver.spans.find(({ name }) => name === call);
    await until("its spans to be sent", () => sent() !== undefined);
    const tree = treeOf(receiver.spans, sent()?.spanId ?? "");
    assert.ok(tree.includes("create container (CLIENT)"), tree.join("\n"));

    const page = (await get(socket, "/")).body;
    assert.ok(page.includes(`<a href="./pods/${pod.id}"`), page);
    assert.match(page, /Slowest calls[^]*RunPodSandbox/);
    await until("the page of the pod to have its history", async () =>
      /<th scope="row">RunPodSandbox</.test((await get(socket, `/pods/${pod.id}`)).body),
    );

    await proxy[Symbol.asyncDispose]();
    await rm(engineSocket, { force: true });
    await until("/readyz to say no", async () => (await get(socket, "/readyz")).status === 503);
    const { body } = await get(socket, "/readyz");
    assert.match(body, /^\[-\]RuntimeReady failed: DockerDaemonNotReady: .*engine\.sock/);
    assert.deepEqual(await get(socket, "/healthz"), { status: 200, body: "ok\n" });
    await until("the link to be lost", async () => {
      const lost = (await scrape()).value("dockershim_engine_link", { state: "lost" });
      return lost === 1;
    });
    assert.match((await get(socket, "/")).body, /<span class="bad"\s*>lost<[^]*engine\.sock/);

    bed.own(await EngineProxy.listen(engineSocket));
    await until("/readyz to say yes", async () => (await get(socket, "/readyz")).status === 200);
    await pod[Symbol.asyncDispose]();
    assert.equal((await shim.stop()).code, 0);
    await assert.rejects(get(socket, "/healthz"));
  });
});
