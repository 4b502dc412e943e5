/** `dockershim doctor` on nodes that are really broken, and on one that is well. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import type { Report } from "../../src/doctor/judge/diagnose.js";
import { dockerEndpoint } from "../support/docker.js";
import { mountHanging, reasonForNoHangingMount } from "../support/hanging-mount.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { runProgram } from "../support/shim-process.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command } from "./kubenet-support.js";

const run = promisify(execFile);

/** A socket file whose server was killed. */
async function leaveSocket(path: string): Promise<void> {
  const server = spawn(process.execPath, [
    "-e",
    "require('net').createServer().listen(process.argv[1])",
    path,
  ]);
  await until("the socket", () =>
    run("test", ["-S", path]).then(
      () => true,
      () => false,
    ),
  );
  server.kill("SIGKILL");
  await once(server, "exit");
}

await withOwnEngine(import.meta.url, [], (engine) => {
  describe("doctor", () => {
    const bed = TestBed.ofSuite();

    // A bridge that tests of networks have left in these namespaces.
    before(() => run("ip", ["link", "delete", "cni0"]).catch(() => undefined));

    async function doctor(
      words: readonly string[],
    ): Promise<{ readonly code: number | null; readonly report: Report }> {
      const { code, stdout, stderr } = await runProgram([
        "doctor",
        "--json",
        ...words,
        `--docker-endpoint=${dockerEndpoint}`,
      ]);
      assert.equal(stderr, "");
      return { code, report: JSON.parse(stdout) as Report };
    }

    test("names what is wrong with a broken node", async (t) => {
      const directory = await bed.newDirectory();
      const [state, confDir, socket] = ["state", "net.d", "cri.sock"].map((name) =>
        join(directory, name),
      ) as [string, string, string];
      await mkdir(state);
      await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", state]);
      t.after(() => run("umount", ["-l", state]));
      await writeFile(join(state, "full"), Buffer.alloc(1024 * 1024));
      await run("mount", ["-o", "remount,ro", state]);
      await mkdir(confDir);
      await writeFile(join(confDir, "1.conflist"), "{");
      const ipam = { type: "host-local", subnet: "10.99.0.0/24" };
      const list = { cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge", bridge: "old0", ipam }] };
      await writeFile(join(confDir, "2.conflist"), JSON.stringify(list));
      await command("ip", "link", "add", "old0", "type", "bridge");
      t.after(() => command("ip", "link", "delete", "old0"));
      await command("ip", "address", "add", "10.98.0.1/24", "dev", "old0");
      await command("ip", "link", "set", "old0", "up");
      const rules = join(directory, "rules");
      await writeFile(rules, (await run("iptables-save")).stdout);
      t.after(() => command("iptables-restore", rules));
      await command("iptables", "-F", "FORWARD");
      await command("iptables", "-P", "FORWARD", "DROP");
      await leaveSocket(socket);
      const taken = createServer().listen(0, "127.0.0.1");
      await once(taken, "listening");
      t.after(() => taken.close());
      const { port } = taken.address() as { port: number };

      const { code, report } = await doctor([
        ...[
          "server",
          "network",
          "node",
          `--state-dir=${state}`,
          `--container-runtime-endpoint=unix://${socket}`,
        ],
        ...[
          "--network-plugin=cni",
          `--cni-conf-dir=${confDir}`,
          `--cni-bin-dir=${confDir}`,
          "--cadvisor-socket=",
        ],
        `--metrics-bind-address=127.0.0.1:${port}`,
      ]);
      assert.equal(code, 1);
      const errors = report.findings.filter(({ severity }) => severity === "error");
      const said = (name: string): string =>
        errors.flatMap(({ check, what }) => (check === name ? `${what}\n` : [])).join("");
      for (const [check, what] of [
        ["disk", new RegExp(`the disk is full: 0 MiB are left at ${state}`)],
        ["read-only", new RegExp(`read-only at ${state}`)],
        ["cni-files", /1\.conflist/],
        ["cni-plugins", /"bridge" of .*2\.conflist is not installed/],
        ["bridges", /old0 has 10\.98\.0\..*\/24, and the configuration wants 10\.99\.0\.0\/24/],
        ["forward-policy", /FORWARD is DROP/],
        ["socket", /no process listens/],
        ["ports", new RegExp(`process ${process.pid} .*127\\.0\\.0\\.1:${port}`)],
      ] as const) {
        assert.match(said(check), what, check);
      }
    });

    test("tells a frozen engine from one that is gone", async () => {
      engine.signal("SIGSTOP");
      try {
        const { code, report } = await doctor(["engine"]);
        assert.equal(code, 1);
        assert.match(report.findings[0]?.what ?? "", /takes connections and does not answer/);
      } finally {
        engine.signal("SIGCONT");
      }
      const { stdout } = await runProgram(["doctor", "engine", "--docker-endpoint=unix:///run/nothing.sock"]);
      assert.match(stdout, /^error .*cannot reach the Docker Engine at unix:\/\/\/run\/nothing\.sock/);
    });

    test("names a file system that hangs, and ends", { skip: reasonForNoHangingMount() }, async () => {
      await using mount = await mountHanging();
      const { code, report } = await doctor(["node", "engine", `--state-dir=${mount.path}`]);
      const errors = report.findings.filter(({ severity }) => severity === "error");
      assert.deepEqual([code, errors.map(({ check }) => check)], [1, ["mounts"]]);
      assert.ok(errors[0]?.what.includes(mount.path), errors[0]?.what);
    });

    test("finds no error while a server runs, and packs a bundle beside it", async () => {
      const shim = await bed.startShim();
      const flags = [
        `--state-dir=${shim.stateDirectory}`,
        `--container-runtime-endpoint=unix://${shim.socket}`,
      ];
      const { code, report } = await doctor(["server", "engine", "network", ...flags]);
      const errors = report.findings.filter(({ severity }) => severity === "error");
      assert.equal(code, errors.length === 0 ? 0 : 1);
      // Docker sets the policy DROP on the host of the tests when it enables forwarding itself.
      assert.deepEqual(
        errors.filter(({ check }) => check !== "forward-policy"),
        [],
      );
      const output = join(await bed.newDirectory(), "bundle.tar.gz");
      const bundle = await runProgram([
        ...["doctor", "bundle", "--output", output, ...flags, `--docker-endpoint=${dockerEndpoint}`],
      ]);
      assert.equal(bundle.code, 0, bundle.stderr);
      const tar = gunzipSync(await readFile(output)).toString("latin1");
      for (const name of ["report.json", "facts.json", "config.json", "log/dockershim.service.log"])
        assert.ok(tar.includes(`dockershim-bundle/${name}\0`), name);
    });
  });
});
