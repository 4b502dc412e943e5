/** The engine that is judged is that of the kubelet's runtime. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { runMigrateCheck } from "../../../src/migrate/cli/migrate-command.js";
import { goldenNode, makeNode } from "./nodes.js";

const { tree } = goldenNode("old-socket-name-1.24");
const unit = "/etc/systemd/system/cri-dockerd.service";
const command = "/usr/bin/cri-dockerd --container-runtime-endpoint=unix:///var/run/dockershim.sock";
const withFlag = {
  ...tree,
  [unit]: `[Service]\nExecStart=${command} --docker-endpoint=unix:///run/k8s.sock\n`,
};

for (const [what, nodes, given, asked, isOther] of [
  ["that of the runtime's flag", withFlag, undefined, "/run/k8s.sock", false],
  ["another one that is given", withFlag, "/run/docker.sock", "/run/docker.sock", true],
  ["the default", tree, undefined, "/var/run/docker.sock", false],
  ["another one than the default", tree, "/run/k8s.sock", "/run/k8s.sock", true],
] as const) {
  test(`migrate check asks ${what}`, async (t) => {
    const root = makeNode(t, nodes);
    const out: string[] = [];
    const endpoint = given === undefined ? undefined : ({ kind: "unix", path: join(root, given) } as const);
    const io = {
      ...{ environment: { DOCKER_HOST: "unix:///run/other.sock" }, version: "1.2.3", isTerminal: false },
      writeOut: (text: string) => out.push(text),
    };
    await runMigrateCheck({ to: "dockershim", output: "json", root, endpoint, kubeletVersion: "1.24.9" }, io);
    const report = JSON.parse(out.join("")) as { engine: { endpoint: string }; findings: { id: string }[] };
    assert.equal(report.engine.endpoint, `unix://${join(root, asked)}`);
    const found = report.findings.some(({ id }) => id === "engine-other");
    assert.equal(found, isOther);
  });
}
