import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "../main/command-line.js";

const endpoint = "--endpoint /run/a.sock";

test("docker-cli-plugin-metadata answers what the Docker CLI wants, by either name", async () => {
  for (const line of ["docker-cli-plugin-metadata", "docker-cli-plugin docker-cli-plugin-metadata"]) {
    const { out, exitCode } = await run(line);
    assert.equal(exitCode, 0);
    assert.deepEqual(JSON.parse(out), {
      SchemaVersion: "0.1.0",
      Vendor: "dockershim",
      Version: "1.2.3",
      ShortDescription: "Run and inspect Kubernetes pods",
    });
  }
});

test("docker pod ps and docker pod play are those of dockershim", async () => {
  const { acted, exitCode } = await run(`docker-cli-plugin pod ps -n shop ${endpoint}`);
  assert.equal(exitCode, 9);
  assert.deepEqual(acted["runPod"], {
    request: {
      ...{ verb: "ps", output: "table", headers: true, watch: false },
      selection: { pods: [], namespace: "shop", labels: [] },
    },
    endpoint: "/run/a.sock",
  });
  const { runPlay: played } = (await run(`docker-cli-plugin pod play --follow a.yaml ${endpoint}`)).acted;
  assert.deepEqual([played?.files, played?.follow], [["a.yaml"], true]);
});

test("the help of the plugin has docker's names, also by docker help pod", async () => {
  const { out } = await run("docker-cli-plugin pod --help");
  assert.match(out, /^Usage: docker pod play\|ps\|/);
  assert.match(out, /^ {2}play /m);
  assert.equal((await run("docker-cli-plugin help pod")).out, out);
  const text = (await run("docker-cli-plugin pod play --help")).out;
  assert.match(text, /^Usage: docker pod play \[flags\] file/);
});

test("the plugin never serves, and refuses flags of docker", async () => {
  for (const [line, reason] of [
    ["docker-cli-plugin", 'docker-pod is a plugin of the Docker CLI: use "docker pod"'],
    ["docker-cli-plugin serve", 'docker-pod is a plugin of the Docker CLI: use "docker pod"'],
    ["docker-cli-plugin pod", /command "pod": no subject given/],
    ["docker-cli-plugin pod ls", /did you mean "docker pod ps"/],
    ["docker-cli-plugin pod play --status x", /did you mean "docker pod play ls"/],
    ["docker-cli-plugin --context x pod ps", /flag "--context" of docker: has no meaning for pods/],
  ] as const) {
    const { err, exitCode, acted } = await run(line);
    assert.equal(exitCode, 1, line);
    assert.deepEqual(acted, {});
    if (typeof reason === "string") assert.equal(err, `dockershim: ${reason}\n`);
    else assert.match(err, reason);
  }
});
