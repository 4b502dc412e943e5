import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileName, historyDirectory } from "../../../src/history/history-files.js";
import { encodeRecord } from "../../../src/history/history-record.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { dockerEngine } from "../../../src/shim/engine/docker-engine.js";
import { openMetrics } from "../../../src/shim/app/open-metrics.js";
import { pageSources } from "../../../src/shim/app/page-sources.js";
import { operationType } from "../../../src/shim/metrics/operation-metrics.js";
import { presentMetrics, type PresentState } from "../../../src/shim/metrics/present-metrics.js";
import { MetricsRegistry } from "../../../src/shim/metrics/metrics-registry.js";
import type { Engine } from "../../../src/shim/ports/engine.js";
import { metricsPage } from "../../../src/shim/cri/stats/metrics-page.js";
import { readConditions } from "../../../src/shim/cri/runtime/status.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { configOf } from "../../fakes/config.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { shimOfEachTest, type TestShim } from "../../fakes/services.js";
import { until } from "../../fakes/turns.js";
import { parsePrometheusText } from "../../support/prometheus-text.js";
import { pluck } from "../../support/pluck.js";

const shim = shimOfEachTest();

function stateOf({ services, sync }: TestShim): PresentState {
  return {
    link: services.state.link,
    model: services.state.model,
    sync,
    network: services.network,
    logs: { counts: { writing: { file: 2, api: 1, attach: 0 }, gaps: 3 } },
    streaming: { running: 1, offers: 2, connections: 4 },
    statsCounts: () => ({
      keptFiles: 9,
      unreadableContainers: 1,
      measuredLayers: 5,
      oldestLayerSeconds: undefined,
    }),
    corruptCheckpoints: () => 6,
    callsUnderWay: () => [],
    spanCounts: () => undefined,
  };
}

/** Metrics of the shim of `TestShim`, served on a port of this host. */
async function serve(
  shim: TestShim,
  flags: Readonly<Record<string, string>> = {},
  stateDir = "/nonexistent",
) {
  const log = recordingLog();
  const lifetime = new Lifetime(log);
  const config = await configOf({ "metrics-bind-address": "127.0.0.1:0", ...flags });
  const metrics = await openMetrics(config, log, lifetime);
  assert.ok(metrics !== undefined);
  const server = await metrics.serve(stateOf(shim), {
    readConditions: (signal) => readConditions(shim.services, signal),
    containerMetrics: (signal) => metricsPage(shim.services, signal),
    page: pageSources({ historyMaxBytes: 1, readOnly: false, stateDir }, shim.services, {
      version: "1.2.3",
      sync: shim.sync,
      underWay: () => [],
    }),
  });
  return {
    server,
    observer: metrics.observer,
    get: async (path: string) => {
      const answer = await fetch(`${server.endpoint}${path}`);
      return { status: answer.status, type: answer.headers.get("content-type"), body: await answer.text() };
    },
    [Symbol.asyncDispose]: () => lifetime.close(),
  };
}

describe("openMetrics()", () => {
  test("opens nothing unless an address is given", async () => {
    const log = recordingLog();
    assert.equal(await openMetrics(await configOf({}), log, new Lifetime(log)), undefined);
  });

  test("serves counts and the present state, in the text format, until the lifetime ends", async () => {
    await shim.runSandbox();
    await using bed = await serve(shim);
    bed.observer.rpcEnded({ rpc: "Version", code: "OK", ms: 1 });
    const { status, type, body } = await bed.get("/metrics");
    assert.deepEqual([status, type], [200, "text/plain; version=0.0.4; charset=utf-8"]);
    const found = parsePrometheusText(body);
    assert.equal(found.value("dockershim_cri_requests_total", { rpc: "Version" }), 1);
    assert.equal(found.value("dockershim_engine_link", { state: "live" }), 1);
    assert.equal(found.value("dockershim_engine_link", { state: "lost" }), 0);
    assert.equal(found.value("dockershim_sandboxes", { state: "ready" }), 1);
    assert.equal(found.value("dockershim_containers", { state: "running" }), 0);
    assert.equal(found.value("dockershim_network_plugin_ready"), 1);
    assert.equal(found.value("dockershim_container_logs", { source: "file" }), 2);
    assert.equal(found.value("dockershim_corrupt_checkpoints_total"), 6);
    assert.equal(found.value("dockershim_writable_layers_oldest_seconds"), undefined);
    assert.ok((found.value("dockershim_read_model_age_seconds") ?? -1) >= 0);
    assert.ok((found.value("process_resident_memory_bytes") ?? 0) > 0);
    await bed[Symbol.asyncDispose]();
    await assert.rejects(bed.get("/metrics"));
  });

  test("/metrics/containers is there when it was asked for", async () => {
    await using without = await serve(shim);
    assert.equal((await without.get("/metrics/containers")).status, 404);
    await using bed = await serve(shim, { "metrics-containers": "true" });
    const { status, type } = await bed.get("/metrics/containers");
    assert.deepEqual([status, type], [200, "text/plain; version=0.0.4; charset=utf-8"]);
  });

  test("the page for people is there when it was asked for, and makes no request of the engine", async () => {
    const id = await shim.runSandbox();
    await using without = await serve(shim);
    assert.equal((await without.get("/")).status, 404);
    await using bed = await serve(shim, { "metrics-page": "true" });
    const before = shim.world.journal.steps.length;
    for (const [path, text] of [
      ["/", `<a href="./pods/${id}"`],
      [`/pods/${id}`, "<h1>Pod "],
      ["/watch", "Stop reloading"],
    ] as const) {
      const { status, type, body } = await bed.get(path);
      assert.deepEqual([status, type, body.includes(text)], [200, "text/html; charset=utf-8", true], path);
    }
    assert.equal((await bed.get("/page.css")).type, "text/css; charset=utf-8");
    assert.deepEqual(shim.world.journal.names().slice(before), []);
    shim.engine.down();
    await until("the engine is lost", () => shim.services.state.link.state.phase === "lost");
    assert.match((await bed.get("/")).body, /RuntimeReady[^]*DockerDaemonNotReady/);
    shim.engine.up();
    await until("the engine is back", () => shim.services.state.link.state.phase === "live");
  });

  test("the page of a pod says why, by the history of this pod alone", async () => {
    const id = await shim.runSandbox();
    const { uid } = shim.services.state.model.requireSandbox(id).pod;
    await using directory = await temporaryDirectory();
    const history = historyDirectory(directory.path);
    await mkdir(history);
    const records = [uid, `${uid}-other`].map((podUid) =>
      encodeRecord({
        ...{
          kind: "call",
          at: 1,
          rpc: "RunPodSandbox",
          ms: 9,
          code: "UNKNOWN",
          error: `no ${podUid}`,
          spans: [],
        },
        subject: { pod: "default/web", podUid },
      }),
    );
    await writeFile(join(history, fileName(1)), Buffer.concat(records));
    await using bed = await serve(shim, { "metrics-page": "true" }, directory.path);
    const { body } = await bed.get(`/pods/${id}`);
    assert.match(body, new RegExp(`<li>RunPodSandbox failed[^<]*no ${uid}<`));
    assert.ok(!body.includes(`${uid}-other`));
    await using without = await serve(shim, { "metrics-page": "true" });
    assert.match((await without.get(`/pods/${id}`)).body, /The latest history has no record of this pod/);
  });

  test("/readyz follows the conditions of Status and says why; /healthz is always ok", async () => {
    await using bed = await serve(shim);
    const ready = { status: 200, body: "[+]RuntimeReady ok\n[+]NetworkReady ok\nreadyz check passed\n" };
    const readyz = async () => {
      const { status, body } = await bed.get("/readyz");
      return { status, body };
    };
    assert.deepEqual(await readyz(), ready);
    shim.world.network.problem = "cni config\nuninitialized";
    assert.deepEqual(await readyz(), {
      status: 503,
      body: [
        "[+]RuntimeReady ok",
        "[-]NetworkReady failed: NetworkPluginNotReady: docker: network plugin is not ready: cni config uninitialized",
        "readyz check failed",
        "",
      ].join("\n"),
    });
    shim.world.network.problem = undefined;
    shim.engine.down();
    await until("the engine is lost", () => shim.services.state.link.state.phase === "lost");
    const away = await readyz();
    assert.equal(away.status, 503);
    const notReady = "[-]RuntimeReady failed: DockerDaemonNotReady: docker: failed to reach the engine: ";
    assert.ok(away.body.startsWith(notReady), away.body);
    assert.deepEqual(await bed.get("/healthz"), {
      status: 200,
      type: "text/plain; charset=utf-8",
      body: "ok\n",
    });
    const gone = parsePrometheusText((await bed.get("/metrics")).body);
    assert.equal(gone.value("dockershim_engine_link", { state: "lost" }), 1);
    shim.engine.up();
    await until("the engine is back", () => shim.services.state.link.state.phase === "live");
    assert.deepEqual(await readyz(), ready);
  });
});

describe("the documents about metrics", () => {
  async function alerts(): Promise<{
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }> {
    const { parse } = await import("../../../src/lib/yaml.js");
    const text = await readFile("docs/run/prometheus-alerts.yml", "utf8");
    const { groups } = parse(text) as { readonly groups: readonly [Awaited<ReturnType<typeof alerts>>] };
    return groups[0];
  }

  async function facts(): Promise<ReturnType<MetricsRegistry["facts"]>> {
    const registry = await MetricsRegistry.create(recordingLog(), { processMetrics: true });
    registry.add(presentMetrics(stateOf(shim)));
    return registry.facts();
  }

  test("docs/run/metrics.md has a row for each, with type and labels", async () => {
    const text = await readFile("docs/run/metrics.md", "utf8");
    const rows = [...text.matchAll(/^\| `(\w+)` \| (\w+) \|([^|]*)\|/gm)].map(
      ([, name = "", type = "", labels = ""]) =>
        `${name} ${type} ${[...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label).join(",")}`,
    );
    const own = (await facts()).filter(({ name }) => /^(?:dockershim|kubelet)_/.test(name));
    const expected = own.map(({ name, type, labels }) => `${name} ${type} ${labels.join(",")}`);
    assert.deepEqual(rows.toSorted(), expected.toSorted());
  });

  test("docs/run/metrics.md has each value of operation_type", async () => {
    const text = await readFile("docs/run/metrics.md", "utf8");
    const lists = /`operation_type` is one of:\n\n([\s\S]*?)\n\n/.exec(text)?.[1] ?? "";
    using engine = dockerEngine({ endpoint: { kind: "unix", path: "/nonexistent" }, shortTimeoutMs: 1 });
    /** The first sends nothing, the others are for `play`. */
    const notServed = new Set<keyof Engine>(["hasAnswered", "inspectVolume", "createVolume"]);
    const verbs = (Object.keys(engine) as (keyof Engine)[]).filter((verb) => !notServed.has(verb));
    const found = [...lists.matchAll(/`(\w+)`/g)].map(([, value]) => value).toSorted();
    assert.deepEqual(found, [...new Set(verbs.map(operationType))].toSorted());
  });

  test("the dashboard asks only for metrics and labels that there are", async () => {
    const dashboard = JSON.parse(await readFile("docs/run/grafana-dashboard.json", "utf8")) as {
      readonly panels: readonly {
        readonly id: number;
        readonly type: string;
        readonly title: string;
        readonly targets?: readonly { readonly expr: string; readonly refId: string }[];
      }[];
    };
    const known = new Map<string, readonly string[]>();
    for (const { name, type, labels } of await facts()) {
      if (type === "histogram") {
        known.set(`${name}_bucket`, [...labels, "le"]);
        for (const part of ["sum", "count"]) known.set(`${name}_${part}`, labels);
      } else known.set(name, labels);
    }
    const { panels } = dashboard;
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length, "ids of panels");
    const asked = new Set<string>();
    for (const { title, type, targets = [] } of panels) {
      assert.equal(targets.length > 0, type !== "row", title);
      for (const { expr } of targets) {
        for (const [, name = "", matchers = ""] of expr.matchAll(/\b([a-z]+_\w+)\{([^}]*)\}/g)) {
          const labels = known.get(name);
          assert.ok(labels !== undefined, `${title}: no metric ${name}`);
          asked.add(name);
          for (const [, label = ""] of matchers.matchAll(/(\w+)=/g))
            if (label !== "instance")
              assert.ok(labels.includes(label), `${title}: ${name} has no label ${label}`);
          for (const [, grouping = ""] of expr.matchAll(/by \(([^)]*)\)/g))
            for (const label of grouping.split(", "))
              if (label !== "instance")
                assert.ok(labels.includes(label), `${title}: ${name} cannot be grouped by ${label}`);
        }
      }
    }
    const shown = (name: string): boolean =>
      asked.has(name) || asked.has(`${name}_bucket`) || asked.has(`${name}_count`);
    const own = pluck(await facts(), "name").filter((name) => /^(?:dockershim|kubelet)_/.test(name));
    const unseen = own.filter((name) => !shown(name));
    assert.deepEqual(unseen, [], "metrics that no panel shows");
  });

  test("the alerts ask only for metrics that there are, and have a test of promtool", async () => {
    const { rules } = await alerts();
    const names = new Set((await facts()).flatMap(({ name }) => [name, `${name}_bucket`]));
    const tests = await readFile("test/golden/prometheus-alerts.test.yml", "utf8");
    for (const { alert, expr } of rules) {
      const asked = [...expr.matchAll(/\b(?:dockershim|kubelet)_\w+/g)].map(([name]) => name);
      assert.ok(asked.length > 0, alert);
      assert.deepEqual([alert, asked.filter((name) => !names.has(name))], [alert, []]);
      assert.ok(tests.includes(`alertname="${alert}"`), `${alert} has no test`);
    }
  });

  const promtool = spawnSync("promtool", ["--version"]).error === undefined;
  test("promtool: each alert fires where it should and nowhere else", { skip: !promtool }, () => {
    const { status, stdout, stderr } = spawnSync("promtool", [
      ...["test", "rules", "test/golden/prometheus-alerts.test.yml"],
    ]);
    assert.equal(status, 0, `${stdout.toString()}${stderr.toString()}`);
  });
});
