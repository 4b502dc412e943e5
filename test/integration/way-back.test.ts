/**
 * What dockershim and cri-dockerd read of what this program makes, by their rules: names, labels, checkpoints
 * and logs. Real ones are asked in switches.test.ts.
 */
import assert from "node:assert/strict";
import { lstat, mkdir, readdir, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { NamespaceMode, Protocol } from "../../src/domain/cri.js";
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

  test("the checkpoint is dockershim's to the byte, and cri-dockerd's after a conversion", async () => {
    const { cri, stateDirectory } = bed.shim;
    const port = { protocol: Protocol.TCP, container_port: 80, host_port: 28_080, host_ip: "127.0.0.1" };
    await using pod = await bed.runPod(cri, { port_mappings: [port] });
    const from = join(stateDirectory, "sandbox");
    const to = join(await bed.newDirectory(), "cri-dockerd", "sandbox");
    const flags = ["--directory", from, "--output=json"];
    const listed = await runProgram(["checkpoint", "ls", ...flags]);
    assert.equal(listed.code, 0, listed.stderr);
    const { checkpoints } = JSON.parse(listed.stdout) as { checkpoints: { id: string; flavour: string }[] };
    assert.equal(checkpoints.find(({ id }) => id === pod.id)?.flavour, "dockershim");
    // The source is only read: the shim may run.
    const converted = await runProgram([
      ...["checkpoint", "convert", "--to", "cri-dockerd", "--directory", from, "--output-directory", to],
    ]);
    assert.equal(converted.code, 0, converted.stderr);
    const verified = await runProgram(["checkpoint", "verify", "--directory", to, "--output=json"]);
    assert.equal(verified.code, 0, verified.stdout);
    const { checkpoints: there } = JSON.parse(verified.stdout) as { checkpoints: typeof checkpoints };
    assert.equal(there.find(({ id }) => id === pod.id)?.flavour, "criDockerd");
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

  test("repair writes missing and damaged checkpoints again from the engine's labels and port bindings", async () => {
    const port = { protocol: Protocol.UDP, container_port: 53, host_port: 28_053, host_ip: "" };
    await using first = await bed.runPod(bed.shim.cri, { port_mappings: [port] });
    await using second = await bed.runPod(bed.shim.cri, {
      linux: { security_context: { namespace_options: { network: NamespaceMode.NODE } } },
    });
    const directory = join(await bed.newDirectory(), "dockershim", "sandbox");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, second.id), "{");
    const endpoint = process.env["DOCKERSHIM_TEST_DOCKER_ENDPOINT"] ?? "unix:///var/run/docker.sock";
    const flags = ["--directory", directory, "--docker-endpoint", endpoint, "--output", "json"];
    const { code, stdout, stderr } = await runProgram(["checkpoint", "repair", ...flags]);
    assert.equal(code, 0, stderr);
    const { files } = JSON.parse(stdout) as {
      files: { id: string; problem: string; source: string; content: Record<string, unknown> }[];
    };
    const one = files.find(({ id }) => id === first.id);
    assert.deepEqual([one?.problem, one?.source], ["missing", "engine"]);
    assert.deepEqual(one?.content["portMappings"], [
      { protocol: "udp", containerPort: 53, hostPort: 28_053 },
    ]);
    const other = files.find(({ id }) => id === second.id);
    assert.equal(other?.content["hostNetwork"], true);
    assert.ok((await readdir(directory)).includes(first.id));
    assert.equal((await readdir(join(directory, "..", "quarantine"))).length, 1);
  });
});
