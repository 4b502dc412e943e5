import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstat, mkdir, mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { activatedDescriptor } from "../../../../src/lib/linux/systemd.js";
import { modulePath, moduleWords } from "../../../support/program-words.js";
import { connectClient } from "../../grpc/test-server.js";

describe("activatedDescriptor()", () => {
  const two = { LISTEN_PID: "42", LISTEN_FDS: "2" };
  for (const [names, wanted, descriptor] of [
    [undefined, undefined, 3],
    ["cadvisor:dockershim.socket", undefined, 4],
    ["cadvisor:dockershim.socket", "cadvisor", 3],
    ["dockershim.socket:cadvisor", "cadvisor", 4],
  ] as const) {
    test(`is ${descriptor} for ${wanted ?? "the CRI"} of ${names ?? "descriptors without names"}`, () => {
      assert.equal(activatedDescriptor({ ...two, LISTEN_FDNAMES: names }, 42, wanted), descriptor);
    });
  }

  for (const [environment, reason, wanted] of [
    [{}, /no sockets found via socket activation: LISTEN_PID and LISTEN_FDS are not set/],
    [{ LISTEN_PID: "42" }, /are not set/],
    [{ LISTEN_FDS: "1" }, /are not set/],
    [{ LISTEN_PID: "41", LISTEN_FDS: "1" }, /LISTEN_PID is "41", this process is 42/],
    [{ LISTEN_PID: "42", LISTEN_FDS: "0" }, /LISTEN_FDS is "0"/],
    [{ LISTEN_PID: "42", LISTEN_FDS: "many" }, /LISTEN_FDS is "many"/],
    [{ ...two, LISTEN_FDNAMES: "a:b" }, /no socket with FileDescriptorName=cadvisor/, "cadvisor"],
    [{ ...two, LISTEN_FDNAMES: "cadvisor:cadvisor" }, /no socket without FileDescriptorName=cadvisor/],
  ] as readonly (readonly [Record<string, string>, RegExp, "cadvisor"?])[]) {
    test(`refuses ${JSON.stringify(environment)} for ${wanted ?? "the CRI"}`, () => {
      const message = new RegExp(`^listen on "fd://": .*${reason.source}`);
      assert.throws(() => activatedDescriptor(environment, 42, wanted), { kind: "precondition", message });
    });
  }
});

const serverScript = (path?: string): string => `
  import { listenOn } from ${JSON.stringify(modulePath("src/shim/app/listen-on.ts"))};
  import { startGrpcServer } from ${JSON.stringify(modulePath("src/shim/grpc/server.ts"))};
  import { criApi } from ${JSON.stringify(modulePath("src/shim/grpc/codec/cri-api.ts"))};
  import { silentLogger } from ${JSON.stringify(modulePath("src/lib/log.ts"))};
  const environment = { LISTEN_PID: String(process.pid), LISTEN_FDS: "1" };
  const version = { readOnly: true, subject: () => ({}), handle: async () => ({ version: "from fd 3" }) };
  const rpcs = new Map([["Version", version]]);
  const endpoint = ${JSON.stringify(path === undefined ? { kind: "systemd" } : { kind: "unix", path })};
  const where = await listenOn(endpoint, environment);
  startGrpcServer({ ...where, api: criApi(), rpcs, log: silentLogger() }).then(
    (server) => console.log("listening on", server.endpoint),
    (error) => console.log(error.message),
  );
`;

describe("startGrpcServer() on a passed socket", () => {
  async function start(fd: number | "ignore", at?: string) {
    const [node, ...words] = moduleWords("--input-type=module", "-e", serverScript(at));
    const child = spawn(node, words, { stdio: ["ignore", "pipe", "inherit", fd] });
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    return { child, line: line.toString().trim() };
  }

  // The path of kubespray's unit leads over a link to that of its socket unit, as /var/run does to /run.
  for (const at of ["fd://", "var-run/x.sock"]) {
    test(`serves ${at} on the listening socket that it is handed`, async () => {
      const directory = await mkdtemp(join(tmpdir(), "fd-test-"));
      await mkdir(join(directory, "run"));
      await symlink("run", join(directory, "var-run"));
      const path = join(directory, "run", "x.sock");
      const listener = createServer().listen(path);
      await once(listener, "listening");
      const { ino } = await lstat(path);
      const { fd } = (listener as unknown as { _handle: { fd: number } })._handle;
      const { child, line } = await start(fd, at === "fd://" ? undefined : join(directory, at));
      try {
        assert.equal(line, `listening on ${at === "fd://" ? at : `unix://${join(directory, at)}`}`);
        // Ours must not accept in its place. close() removes the path that was bound.
        await rename(path, `${path}.aside`);
        listener.close();
        await rename(`${path}.aside`, path);
        using client = connectClient(path);
        assert.equal((await client.call("Version", {}))["version"], "from fd 3");
        assert.equal((await lstat(path)).ino, ino);
      } finally {
        child.kill("SIGKILL");
        await once(child, "exit");
        await rm(directory, { recursive: true, force: true });
      }
    });
  }

  test("refuses a descriptor that is no socket in one line", async () => {
    const { child, line } = await start("ignore");
    child.kill("SIGKILL");
    assert.match(line, /^listen on "fd:\/\/": descriptor 3: [^\n]+$/);
  });
});
