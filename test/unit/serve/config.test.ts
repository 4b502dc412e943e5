import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { run } from "../main/command-line.js";

const line =
  "--network-plugin=cni --pod-cidr=10.1.0.0/16,fd00::/64 -v4 --ipv6-dual-stack=false --logtostderr";
const environment = { DOCKERSHIM_CGROUP_DRIVER: "systemd", DOCKER_HOST: "tcp://h:1" };

describe("dockershim config", () => {
  test("prints each value with its origin in aligned columns", async () => {
    const files = { "/c.yaml": "hairpin-mode: none" };
    const { exitCode, out, err } = await run(`config ${line} --config=/c.yaml`, {
      environment,
      files,
      isReal: true,
    });
    assert.equal(exitCode, 0);
    assert.equal(err, 'dockershim: flag "--logtostderr" is ignored: the log always goes to standard error\n');
    const [header = "", ...rows] = out.trimEnd().split("\n");
    assert.match(header, /^OPTION +VALUE +FROM$/);
    const cells = new Map(rows.map((row) => [row.split(/\s+/)[0], row.split(/\s{2,}/).slice(1)]));
    assert.deepEqual(cells.get("network-plugin"), ["cni", "flag --network-plugin"]);
    assert.deepEqual(cells.get("pod-cidr"), ["10.1.0.0/16,fd00::/64", "flag --pod-cidr"]);
    assert.deepEqual(cells.get("log-level"), ["debug", "flag --v"]);
    assert.deepEqual(cells.get("cgroup-driver"), ["systemd", "environment DOCKERSHIM_CGROUP_DRIVER"]);
    assert.deepEqual(cells.get("docker-endpoint"), ["tcp://h:1", "environment DOCKER_HOST"]);
    assert.deepEqual(cells.get("hairpin-mode"), ["none", "file /c.yaml:1"]);
    assert.deepEqual(cells.get("runtime-cgroups"), ["-", "default"]);
    assert.equal(new Set(rows.map((row) => row.search(/ (?:default|flag|environment|file)[^,]*$/))).size, 1);
  });

  for (const format of ["yaml", "json"]) {
    test(`prints ${format} that yields the same configuration as a file`, async () => {
      const { runServe: served } = (await run(line, { environment })).acted;
      const { out } = await run(`config -o ${format} ${line}`, { environment, isReal: true });
      const again = await run("--config /saved", { files: { "/saved": out } });
      assert.equal(again.err, "");
      assert.notEqual(served, undefined);
      assert.deepEqual(again.acted.runServe?.config, served?.config);
    });
  }
});
