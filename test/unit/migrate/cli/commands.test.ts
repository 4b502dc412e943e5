/** The commands of migrate, and what they run: programs that are asked for their version, and namespaces. */
import assert from "node:assert/strict";
import { access, chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runMigrateCheck } from "../../../../src/migrate/cli/migrate-command.js";
import { choosePlugin } from "../../../../src/migrate/cli/rehearse-namespaces.js";
import { NodeFiles } from "../../../../src/migrate/files/node-files.js";
import { askVersion } from "../../../../src/migrate/kubelet/ask-version.js";
import { readKubelet } from "../../../../src/migrate/kubelet/read-kubelet.js";
import { kubeadm130, makeNode } from "../nodes.js";

describe("runMigrateCheck()", () => {
  const io = (out: string[]) => ({
    ...{ environment: {}, version: "1.2.3", isTerminal: false },
    writeOut: (text: string) => out.push(text),
  });

  test("without an engine it reports the node's files, names the socket, and makes no directory", async (t) => {
    const root = makeNode(t, kubeadm130);
    const before = (await readdir(root, { recursive: true })).sort();
    const out: string[] = [];
    const options = {
      to: "dockershim",
      output: "json",
      root,
      endpoint: undefined,
      kubeletVersion: "1.30",
    } as const;
    assert.equal(await runMigrateCheck(options, io(out)), 2);
    const report = JSON.parse(out.join("")) as { format: string; findings: { id: string; text: string }[] };
    assert.equal(report.format, "dockershim-migrate-check");
    assert.equal(report.findings[0]?.id, "engine-unreachable");
    assert.ok(report.findings[0].text.includes(join(root, "/var/run/docker.sock")));
    assert.deepEqual((await readdir(root, { recursive: true })).sort(), before);
  });

  test("a root that is no directory is an error that names it", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "dockershim-root-"));
    t.after(() => rm(directory, { recursive: true }));
    await mkdir(join(directory, "a"));
    const options = {
      to: "dockershim",
      output: "page",
      endpoint: undefined,
      kubeletVersion: undefined,
    } as const;
    const root = join(directory, "none");
    await assert.rejects(runMigrateCheck({ ...options, root }, io([])), /flag "--root": ".*none": ENOENT/);
  });
});

test("choosePlugin() takes cni where its plugins are, and where a namespace has a way to the engine", async (t) => {
  const installed = await mkdtemp(join(tmpdir(), "dockershim-plugins-"));
  t.after(() => rm(installed, { recursive: true }));
  for (const name of ["bridge", "host-local"]) await writeFile(join(installed, name), "", { mode: 0o755 });
  const auto = { networkPlugin: "auto", cniBinDirs: [installed] } as const;
  assert.equal(await choosePlugin(auto), "cni");
  assert.equal(await choosePlugin({ ...auto, dockerEndpoint: "unix:///run/docker.sock" }), "cni");
  assert.equal(await choosePlugin({ ...auto, cniBinDirs: ["/nowhere"] }), "no-op");
  assert.equal(await choosePlugin({ ...auto, dockerEndpoint: "tcp://127.0.0.1:2375" }), "no-op");
  await assert.rejects(
    choosePlugin({ ...auto, networkPlugin: "kubenet", dockerEndpoint: "tcp://127.0.0.1:2375" }),
    /kubenet: the engine at "tcp:\/\/127\.0\.0\.1:2375" cannot be reached .*; name its unix socket/,
  );
  await assert.rejects(
    choosePlugin({ ...auto, networkPlugin: "cni", cniBinDirs: ["/nowhere"] }),
    /are not in \/nowhere; install them/,
  );
});

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
    const root = makeNode(t, {
      "/etc/systemd/system/kubelet.service": `[Service]\nExecStart=${command}\n`,
    });
    assert.equal((await readKubelet(new NodeFiles(root), undefined, ask)).version, undefined);
  }
  assert.deepEqual(asked, []);
});
