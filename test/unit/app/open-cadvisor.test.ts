import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { status, type ServiceError } from "@grpc/grpc-js";
import { openCadvisor } from "../../../src/shim/app/open-cadvisor.js";
import type { Observer } from "../../../src/shim/ports/observer.js";
import { CadvisorClient } from "../../support/cadvisor.js";
import { Random } from "../../support/hostile/random.js";
import { RawClient } from "../../support/hostile/raw-client.js";
import { configOf } from "../../fakes/config.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { shimOfEachTest, type TestShim } from "../../fakes/services.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { pluck } from "../../support/pluck.js";

const shim = shimOfEachTest();

async function open(shim: TestShim, flags: Readonly<Record<string, string>>) {
  const log = recordingLog();
  const calls: string[] = [];
  const observer = {
    rpcEnded: ({ rpc, code }: { rpc: string; code: string }) => calls.push(`${rpc} ${code}`),
  } as Partial<Observer> as Observer;
  const services = { ...shim.services, version: "1.2.3" };
  const server = await openCadvisor(await configOf(flags), services, log, {}, observer);
  return { log, calls, isServed: server !== undefined, [Symbol.asyncDispose]: async () => server?.close() };
}

/** A process of its own that listens there, with the name of containerd. */
async function startContainerd(path: string) {
  const script =
    "process.title = 'containerd'; require('net').createServer().listen(process.argv[1], () => console.log('on'))";
  const child = spawn(process.execPath, ["-e", script, path], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return {
    pid: child.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

describe("openCadvisor()", () => {
  test("serves cAdvisor's calls on a private socket, and reports them to the observer", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "new", "cadvisor.sock");
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    const { pid } = shim.engine.containers.get(id).state;
    await using bed = await open(shim, { "cadvisor-socket": path });
    assert.equal((await lstat(path)).mode & 0o777, 0o600);
    using client = new CadvisorClient(path);
    assert.equal(await client.version(), "1.2.3");
    for (const cgroup of [`/kubepods/pod1/${id}`, `/kubepods.slice/docker-${id}.scope`]) {
      const handled = await client.handle(cgroup);
      assert.ok(handled);
      assert.equal(handled.pid, pid);
      assert.equal(handled.container.labels["io.cri-containerd.kind"], "container");
      assert.deepEqual(JSON.parse(handled.container.spec.value.toString()), {
        ociVersion: "1.0.2",
        process: { args: [], cwd: "/", env: [] },
      });
    }
    assert.equal(await client.handle(`/system.slice/docker-${idOf("ab")}.scope`), undefined);
    assert.equal(bed.calls.slice(0, 4).join(), "GetVersion OK,GetContainer OK,GetContainer OK,GetTask OK");
    assert.equal(bed.calls.at(-1), "GetContainer NOT_FOUND");
    await bed[Symbol.asyncDispose]();
    await assert.rejects(lstat(path), { code: "ENOENT" });
  });

  test("answers everything that is no call of cAdvisor, and goes on", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "cadvisor.sock");
    await using _bed = await open(shim, { "cadvisor-socket": path });
    using raw = new RawClient(path);
    const get = "/containerd.services.containers.v1.Containers/Get";
    const bytes = new Random(1);
    for (let count = 0; count < 200; count += 1) {
      const message = Buffer.from(Array.from({ length: bytes.below(200) }, () => bytes.below(256)));
      const { code } = await raw.unary(get, message, 5_000);
      const codes = [status.NOT_FOUND, status.INVALID_ARGUMENT];
      assert.ok(codes.includes(code), `${code} for ${message.toString("hex")}`);
    }
    for (const other of [
      "/containerd.services.containers.v1.Containers/List",
      "/containerd.services.tasks.v1.Tasks/Kill",
      "/runtime.v1.RuntimeService/Version",
    ])
      assert.equal((await raw.unary(other, Buffer.alloc(0), 5_000)).code, status.UNIMPLEMENTED);
    const garbage = connect(path);
    garbage.on("error", () => undefined);
    garbage.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".padEnd(4096, "\u00ff"));
    await once(garbage.resume(), "close");
    using client = new CadvisorClient(path);
    assert.equal(await client.version(), "1.2.3");
    await assert.rejects(client.container("x"), (error: ServiceError) => error.code === status.NOT_FOUND);
  });

  test("refuses a socket that another program serves, by its name and process", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "containerd.sock");
    await using containerd = await startContainerd(path);
    await assert.rejects(open(shim, { "cadvisor-socket": path }), {
      kind: "conflict",
      message: `"--cadvisor-socket": listen on "${path}": another server answers there: containerd, process ${containerd.pid}`,
    });
    assert.ok((await lstat(path)).isSocket());
  });

  test("refuses a path that was asked for and cannot be had, and serves without the default's", async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "cadvisor.sock");
    await writeFile(path, "");
    await assert.rejects(open(shim, { "cadvisor-socket": path }), { kind: "precondition" });
    const log = recordingLog();
    const config = { cadvisorSocket: { kind: "unix", path }, cadvisorSocketRequired: false } as const;
    const services = { ...shim.services, version: "1.2.3" };
    assert.equal(await openCadvisor(config, services, log, {}), undefined);
    const ways = "give another path with --cadvisor-socket, or none with --cadvisor-socket=";
    assert.deepEqual(pluck(log.lines, "message"), [`container metrics have no names: ${ways}`]);
  });

  for (const flags of [{ "cadvisor-socket": "" }, { "read-only": "true" }] as const) {
    test(`opens nothing given ${JSON.stringify(flags)}`, async () => {
      await using bed = await open(shim, flags);
      assert.deepEqual([bed.isServed, bed.log.lines], [false, []]);
    });
  }
});
