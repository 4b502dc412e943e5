/** The program that Docker starts in place of runc, with the server that answers it and a stand-in for runc. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmod, mkdir, opendir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { programPath } from "../../../src/shim/native/programs.js";
import { OciRuntimeServer, type PlannedContainer } from "../../../src/shim/oci-runtime/oci-runtime-server.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const program = programPath("oci-runtime", process.arch, "");
const specification = '{"process":{"args":["true"]},"later":18446744073709551615}';

interface Run {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const ids = { hostId: 100_000, size: 65_536 };
const users = { uids: ids, gids: ids };
const noLimits = { unified: {}, hugepages: [] };

describe("the OCI runtime in front of runc", { timeout: 120_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let stops: (() => Promise<unknown>)[];
  let bundle = "";
  let sockets = "";
  let log = "";
  beforeEach(async () => {
    directory = await temporaryDirectory();
    stops = [];
    [bundle, sockets, log] = [
      join(directory.path, "bundle"),
      join(directory.path, "s"),
      join(directory.path, "log"),
    ];
    await mkdir(bundle);
    await writeFile(join(bundle, "config.json"), specification);
    const runc = join(directory.path, "bin", "runc");
    await mkdir(join(directory.path, "bin"));
    await writeFile(runc, '#!/bin/sh\necho "$@"\nexit 7\n');
    await chmod(runc, 0o755);
  });
  afterEach(async () => {
    for (const stop of stops) await stop();
    await directory[Symbol.asyncDispose]();
  });

  function run(...words: readonly string[]): Promise<Run> {
    const child = spawn(program, [`--dockershim-sockets=${sockets}`, ...words], {
      env: { PATH: `${directory.path}/none:${directory.path}/bin:/usr/bin:/bin` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => (output[name] += text));
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (exitCode) => {
        resolve({ exitCode, ...output });
      });
    });
  }

  const create = (id = "c1"): Promise<Run> =>
    run(...["--root", "/r", "--log", log, "--log-format", "json", "create", "--bundle", bundle, id]);

  async function serve(
    stateDirectoryId: string,
    planned: Readonly<Record<string, PlannedContainer>>,
  ): Promise<OciRuntimeServer> {
    const server = new OciRuntimeServer({
      ...{ directory: sockets, stateDirectoryId, log: recordingLog() },
      plannedContainer: (id) => planned[id],
      roots: { pathOf: (id) => `/${id}`, mount: () => Promise.reject(new Error('not "this"\none')) },
    });
    stops.push(() => server.stop());
    await server.listen();
    return server;
  }

  const written = (): Promise<string> => readFile(join(bundle, "config.json"), "utf8");
  const logged = async (): Promise<Readonly<Record<"level" | "msg", string>>> =>
    JSON.parse(await readFile(log, "utf8")) as Readonly<Record<"level" | "msg", string>>;

  test("passes all other commands on to runc with the same words, without a server", async () => {
    for (const words of [
      ["--root", "create", "--log", log, "state", "c1"],
      ["features"],
      ["--version"],
      ["delete", "--force", "create"],
      [],
    ]) {
      const { exitCode, stdout } = await run(...words);
      assert.deepEqual([exitCode, stdout], [7, `${words.join(" ")}\n`]);
    }
  });

  test("changes the specification before runc makes a container", async () => {
    await serve("a", {
      c1: { changes: { limits: ["unified"] }, limits: { unified: { "memory.high": "5" }, hugepages: [] } },
    });
    const { exitCode, stdout } = await create();
    assert.equal(stdout, `--root /r --log ${log} --log-format json create --bundle ${bundle} c1\n`);
    assert.equal(exitCode, 7);
    assert.equal(
      await written(),
      specification.replace(/\}$/, ',"linux":{"resources":{"unified":{"memory.high":"5"}}}}'),
    );
    assert.deepEqual(await readdir(bundle), ["config.json"]);
  });

  test("finds the server that knows the container, and passes by those that do not or are gone", async () => {
    await serve("a", {});
    await serve("c", { c1: { changes: {}, limits: noLimits } });
    await mkdir(join(sockets, "b"));
    await mkdir(join(sockets, "d"));
    await writeFile(join(sockets, "d", "socket"), "");
    assert.equal((await create()).exitCode, 7);
  });

  test("the container that finds out whether it works gets a program that runc cannot find", async () => {
    const server = await serve("a", {});
    {
      using _ = server.try("c1", "dockershim-trial-1");
      assert.equal((await create()).exitCode, 7);
    }
    assert.equal(await written(), specification.replace("true", "dockershim-trial-1"));
    assert.equal((await create()).exitCode, 1);
  });

  test("executes the program of --dockershim-runtime in place of the runc of PATH", async () => {
    const { exitCode } = await run("--dockershim-runtime=/bin/true", "state", "c1");
    assert.equal(exitCode, 0);
  });

  const faults: Readonly<
    Record<string, readonly [prepare: () => Promise<unknown>, reason: string | RegExp]>
  > = {
    "without a server": [
      async () => undefined,
      "no server of dockershim listens, and the container needs one to start",
    ],
    "for a container that no server knows": [
      () => serve("a", {}),
      "no server of dockershim knows this container",
    ],
    "that the server refuses": [
      () => serve("a", { c1: { changes: { users }, limits: noLimits } }),
      'change the OCI specification: not "this"\none',
    ],
    "whose specification is no JSON": [
      async () => {
        await serve("a", { c1: { changes: {}, limits: noLimits } });
        await writeFile(join(bundle, "config.json"), "{");
      },
      "change the OCI specification: line 1, column 2: expected a key in quotes, found the end",
    ],
    "without a specification": [
      () => writeFile(join(directory.path, "x"), "").then(() => (bundle = directory.path)),
      "open config.json: error 2",
    ],
    "without a bundle": [async () => (bundle = join(directory.path, "none")), "open the bundle: error 2"],
    "when the server ends before it answers": [
      () => listen((server) => server.on("connection", (socket) => socket.destroy())),
      /^ask the server about the container: error (?:5|32|104)$/,
    ],
    "when the answer is of another kind": [
      () =>
        listen((server) =>
          server.on("connection", (socket) =>
            socket.once("data", () => socket.end(Buffer.from([8, 0, 0, 0, 9, 0, 0, 0]))),
          ),
        ),
      "the server's answer is of an unknown kind",
    ],
  };
  for (const [what, [prepare, reason]] of Object.entries(faults))
    test(`makes no container ${what}, and says why where Docker reads it`, async () => {
      await prepare();
      const { exitCode, stdout, stderr } = await create();
      assert.deepEqual([exitCode, stdout], [1, ""]);
      const { level, msg } = await logged();
      assert.equal(level, "error");
      if (typeof reason === "string") assert.equal(msg, `dockershim: ${reason}`);
      else assert.match(msg.replace("dockershim: ", ""), reason);
      assert.match(stderr, /^dockershim: /);
    });

  test("a server that ends before it answers does not keep the container of another one from its start", async () => {
    const [first = "", second = ""] = await makePlaces("a", "b");
    await listen((server) => server.on("connection", (socket) => socket.destroy()), first);
    await serve(second, { c1: { changes: {}, limits: noLimits } });
    assert.equal((await create()).exitCode, 7);
  });

  /** Places of servers, as the program finds them: in no order. */
  async function makePlaces(...names: readonly string[]): Promise<readonly string[]> {
    for (const name of names) await mkdir(join(sockets, name), { recursive: true });
    const found: string[] = [];
    for await (const { name } of await opendir(sockets)) found.push(name);
    return found;
  }

  // Each would be asked for half a minute.
  test("servers that are frozen do not delay another one's container", { timeout: 25_000 }, async () => {
    const [first = "", second = "", last = ""] = await makePlaces("a", "b", "c");
    for (const place of [first, second])
      await listen((server) => server.on("connection", () => undefined), place);
    await serve(last, { c1: { changes: {}, limits: noLimits } });
    // Those that are frozen do not read a large question either.
    await writeFile(join(bundle, "config.json"), `{"a":"${"x".repeat(4 * 1024 * 1024)}"}`);
    assert.equal((await create()).exitCode, 7);
  });

  async function listen(prepare: (server: Server) => unknown, place = "a"): Promise<void> {
    const server = createServer();
    prepare(server);
    await mkdir(join(sockets, place), { recursive: true });
    await new Promise<void>((resolve) => server.listen(join(sockets, place, "socket"), resolve));
    stops.push(async () => server.close());
  }

  test("a hundred containers are made at once", async () => {
    await serve("a", { c1: { changes: {}, limits: noLimits } });
    const ends = Array.from({ length: 100 }, async (_, index) => {
      const one = join(directory.path, `bundle-${index}`);
      await mkdir(one);
      await writeFile(join(one, "config.json"), specification);
      return run("create", "--bundle", one, "c1");
    });
    assert.ok((await Promise.all(ends)).every(({ exitCode }) => exitCode === 7));
  });
});
