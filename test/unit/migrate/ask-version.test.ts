import assert from "node:assert/strict";
import { access, chmod, copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { askVersion } from "../../../src/migrate/kubelet/ask-version.js";
import { readKubelet } from "../../../src/migrate/kubelet/read-kubelet.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { makeNode } from "./nodes.js";

test("askVersion() runs a binary, and never a script, which could start a kubelet", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "dockershim-version-"));
  t.after(() => rm(directory, { recursive: true }));
  const [script, binary, trace] = ["script", "binary", "trace"].map((name) => join(directory, name)) as [
    ...[string, string, string],
  ];
  await writeFile(script, `#!/bin/sh\ntouch ${trace}\necho Kubernetes v1.30.0\n`);
  await copyFile("/bin/cat", binary);
  await Promise.all([script, binary].map((path) => chmod(path, 0o755)));
  assert.equal(await askVersion(script), undefined);
  await assert.rejects(access(trace));
  assert.match((await askVersion(binary)) ?? "", /\d/);
  assert.equal(await askVersion(join(directory, "none")), undefined);
});

test("only a program that is called kubelet is asked for the kubelet's version", async (t) => {
  const asked: string[] = [];
  const ask = (program: string): Promise<string> => {
    asked.push(program);
    return Promise.resolve("Docker version 1.13.1");
  };
  for (const command of ["/bin/sh -c kubelet", "/usr/bin/docker run kubelet", "/opt/bin/kubelet-wrapper"]) {
    const root = await makeNode(t, {
      "/etc/systemd/system/kubelet.service": `[Service]\nExecStart=${command}\n`,
    });
    assert.equal((await readKubelet(new NodeFiles(root), undefined, ask)).version, undefined);
  }
  assert.deepEqual(asked, []);
});
