import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type MigrateIo, runMigrateCheck } from "../../../src/migrate/cli/migrate-command.js";
import { kubeadm130, makeNode } from "../migrate/nodes.js";
import { run } from "./command-line.js";

describe("dockershim migrate", () => {
  test("check has defaults, and answers the exit code of the action", async () => {
    const { checked, exitCode, err } = await run("migrate check");
    assert.deepEqual(checked, {
      ...{ to: "dockershim", output: "page", root: "/" },
      endpoint: undefined,
      kubeletVersion: undefined,
    });
    assert.deepEqual([exitCode, err], [2, ""]);
  });

  test("check reads DOCKER_HOST for the root / alone; the flag wins", async () => {
    const environment = { DOCKER_HOST: "unix:///run/a.sock" };
    const endpoint = async (line: string): Promise<unknown> =>
      (await run(line, { environment })).checked?.endpoint;
    assert.deepEqual(await endpoint("migrate check"), { kind: "unix", path: "/run/a.sock" });
    assert.deepEqual(await endpoint("migrate check --docker-endpoint unix:///b.sock"), {
      kind: "unix",
      path: "/b.sock",
    });
    assert.equal(await endpoint("migrate check --root /tmp"), undefined);
  });

  test("plan passes its flags", async () => {
    const { planned } = await run(
      "migrate plan --to cri-dockerd --back --root /r --kubelet-version 1.23.17 -o json",
    );
    assert.deepEqual(planned, {
      ...{
        to: "cri-dockerd",
        output: "json",
        root: "/r",
        kubeletVersion: "1.23.17",
        back: true,
        write: false,
      },
      ...{ program: "/opt/dockershim/bin/dockershim", undo: undefined },
    });
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ["migrate", /no subject given; use "check", "plan" or "rehearse"/],
    ["migrate chekc", /"chekc"; use "check", "plan" or "rehearse"/],
    ["migrate check --to podman", /flag "--to": "podman": must be/],
    ["migrate check now", /unexpected argument "now"/],
    ["migrate check --kubelet-version new", /flag "--kubelet-version": "new": is no version/],
    ["migrate check --output yaml", /flag "--output": "yaml": must be/],
    ["migrate plan --undo /d --write", /flag "--undo": stands alone/],
    ["--v=4 migrate check", /flag "--v": has no meaning for the command "migrate"/],
  ];
  for (const [line, message] of refused) {
    test(`"${line}" is one line and exit code 1`, async () => {
      const { exitCode, err, checked, planned } = await run(line);
      assert.equal(exitCode, 1);
      assert.match(err, message);
      assert.equal(err.trim().split("\n").length, 1);
      assert.deepEqual([checked, planned], [undefined, undefined]);
    });
  }
});

describe("runMigrateCheck()", () => {
  const io = (out: string[]): MigrateIo => ({
    ...{ environment: {}, version: "1.2.3", isTerminal: false },
    writeOut: (text) => out.push(text),
  });

  test("without an engine it reports the node's files, names the socket, and makes no directory", async (t) => {
    const root = await makeNode(t, kubeadm130);
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
