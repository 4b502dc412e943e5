import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { choosePlugin } from "../../../../src/migrate/cli/rehearse-namespaces.js";

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
