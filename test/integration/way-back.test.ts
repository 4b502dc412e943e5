/**
 * What dockershim and cri-dockerd read of what this program makes, by their rules: names, labels, checkpoints
 * and logs. Real ones are asked in switches.test.ts.
 */
import assert from "node:assert/strict";
import { lstat, readlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { dockerJson, inspectContainer } from "../support/docker.js";
import { isEngineElsewhere } from "../support/engine-host.js";
import { runProgram } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

interface Listed {
  readonly Id: string;
  readonly Names: readonly string[];
  readonly Labels: Readonly<Record<string, string>>;
}

/** As both read a name: six fields or seven, of which the last is not looked at. */
function fieldsOf(name: string): readonly string[] {
  const fields = name.replace(/^\//, "").split("_");
  assert.ok(fields.length === 6 || fields.length === 7, name);
  assert.equal(fields[0], "k8s");
  assert.match(fields[5] ?? "", /^\d+$/);
  return fields;
}

describe("the way back", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: { flags: ["--container-log-format=docker"] } });

  test("names and labels of pods and containers are those that dockershim and cri-dockerd read", async () => {
    const { cri } = bed.shim;
    await using pod = await bed.runPod(cri, { annotations: { note: "a" }, labels: { app: "web" } });
    const container = await pod.start({ annotations: { hash: "b" } });
    const filter = (value: object): string => encodeURIComponent(JSON.stringify(value));
    const list = async (type: string): Promise<readonly Listed[]> => {
      const filters = filter({ label: [`io.kubernetes.docker.type=${type}`] });
      return (await dockerJson("GET", `/containers/json?all=1&filters=${filters}`)) as readonly Listed[];
    };
    const sandbox = (await list("podsandbox")).find(({ Id }) => Id === pod.id);
    const { metadata } = pod.config;
    assert.deepEqual(fieldsOf(sandbox?.Names[0] ?? ""), [
      ...["k8s", "POD", metadata?.name, metadata?.namespace, metadata?.uid, "0"],
    ]);
    assert.equal(sandbox?.Labels["io.kubernetes.container.name"], "POD");
    assert.equal(sandbox.Labels["annotation.note"], "a");
    assert.equal(sandbox.Labels["app"], "web");
    const listed = (await list("container")).find(({ Id }) => Id === container);
    assert.equal(fieldsOf(listed?.Names[0] ?? "")[1], "main");
    assert.equal(listed?.Labels["io.kubernetes.sandbox.id"], pod.id);
    assert.equal(listed.Labels["annotation.hash"], "b");
    const log = listed.Labels["io.kubernetes.container.logpath"] ?? "";
    assert.equal(log, join(pod.config.log_directory ?? "", "main.log"));
    if (isEngineElsewhere) {
      // docs/run/logs.md: a link would lead nowhere.
      await until("the log file", () =>
        lstat(log).then(
          (found) => found.isFile(),
          () => false,
        ),
      );
      return;
    }
    // With --container-log-format=docker the log is what both make of it: a link to Docker's file.
    const target = await until("the link", async () => readlink(log).catch(() => undefined));
    assert.equal(target, (await inspectContainer(container))?.LogPath);
  });

  test("checkpoint commands refuse to write where the shim serves, and change nothing", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const directory = join(bed.shim.stateDirectory, "sandbox");
    for (const subject of [["convert", "--to", "cri-dockerd"], ["repair"]]) {
      const { code, stderr } = await runProgram(["checkpoint", ...subject, "--directory", directory]);
      assert.equal(code, 1);
      assert.match(stderr, /dockershim uses it/);
    }
    const { code } = await runProgram(["checkpoint", "verify", "--directory", directory]);
    assert.equal(code, 0, pod.id);
  });
});
