import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejectsWith } from "../../support/refusals.js";
import { orAbort } from "../../../src/lib/abort.js";
import { isKind, ShimError } from "../../../src/lib/errors.js";
import type { CreateBody } from "../../../src/domain/create-body.js";
import { cut, hang, json, refuse, type Respond, startFakeDocker } from "./fake-docker.js";
import { withResolvers } from "../../fakes/turns.js";

const id = "a".repeat(64);
const body: CreateBody = { Image: "busybox:1", Labels: {}, HostConfig: {} };

const never = new AbortController().signal;

function status(code: number): Respond {
  return (_request, response) => {
    response.writeHead(code);
    response.end();
  };
}

describe("DockerEngine connection", () => {
  test("connect() speaks the negotiated version from then on, and another one after an upgrade", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set("GET /version", json({ Version: "x", ApiVersion: "1.41", MinAPIVersion: "1.12" }));
    docker.answers.set("GET /containers/json", json([]));
    const engine = await docker.engine();
    await engine.listContainers({ labelKey: "k" }, never);
    assert.deepEqual([...docker.versions], ["none", "1.41"]);
    docker.answers.set("GET /version", json({ Version: "x", ApiVersion: "1.45", MinAPIVersion: "1.24" }));
    assert.equal((await engine.connect(never)).apiMinor, 45);
    await engine.listContainers({ labelKey: "k" }, never);
    assert.deepEqual([...docker.versions], ["none", "1.41", "1.45"]);
  });

  test("hasDefaultNetwork() looks for the network bridge, which no other name stands for", async () => {
    await using docker = await startFakeDocker();
    const engine = await docker.engine();
    for (const [names, expected] of [
      [["bridge", "host", "none"], true],
      [["host", "none", "bridge2"], false],
    ] as const) {
      docker.answers.set("GET /networks", json(names.map((Name) => ({ Name, Driver: "bridge" }))));
      assert.equal(await engine.hasDefaultNetwork(never), expected);
    }
    docker.answers.set("GET /networks", refuse(403, "not for you"));
    await assert.rejects(engine.hasDefaultNetwork(never), /not for you/);
  });

  test("ping() wants a 200 within its limit", async () => {
    const timeoutMs = 60_000;
    await using docker = await startFakeDocker();
    const engine = await docker.engine();
    docker.answers.set("GET /_ping", status(200));
    await engine.ping({ timeoutMs }, never);
    docker.answers.set("GET /_ping", refuse(500, "starting"));
    await assert.rejects(engine.ping({ timeoutMs }, never), { message: "starting" });
    docker.answers.set("GET /_ping", hang);
    await rejectsWith(engine.ping({ timeoutMs: 1 }, never), "timeout");
  });

  for (const [what, answer, expected] of [
    ["was answered", json([]), true],
    ["was refused", refuse(404, "no such container"), true],
    ["failed in the engine", refuse(500, "broken"), false],
  ] as const) {
    test(`hasAnswered() is ${String(expected)} after a recent request that ${what}, and sends nothing`, async (t) => {
      await using docker = await startFakeDocker();
      const engine = await docker.engine();
      const clock = t.mock.method(performance, "now", () => 1_000_000);
      docker.answers.set("GET /containers/json", answer);
      await engine.listContainers({ labelKey: "k" }, never).catch(() => undefined);
      const sent = docker.requests.length;
      assert.equal(engine.hasAnswered(2_000), expected);
      clock.mock.mockImplementation(() => 1_002_000);
      assert.equal(engine.hasAnswered(2_000), false, "it is too old");
      assert.equal(docker.requests.length, sent);
    });
  }

  test("hasAnswered() is true after a request that was sent long ago, and is answered now", async (t) => {
    await using docker = await startFakeDocker();
    const engine = await docker.engine();
    const clock = t.mock.method(performance, "now", () => 1_000_000);
    docker.answers.set("GET /containers/json", (_request, response) => {
      clock.mock.mockImplementation(() => 1_005_000);
      response.setHeader("Content-Type", "application/json").end("[]");
    });
    await engine.listContainers({ labelKey: "k" }, never);
    assert.equal(engine.hasAnswered(2_000), true);
  });
});

describe("DockerEngine containers", () => {
  for (const [graceSeconds, sent] of [
    [30, "30"],
    [0, "0"],
    [-5, "0"],
    [1.2, "2"],
    [1e15, "2073600"],
  ] as const) {
    test(`stopContainer() with a grace of ${graceSeconds} s asks for ${sent}`, async () => {
      await using docker = await startFakeDocker({ [`POST /containers/${id}/stop`]: status(204) });
      await (await docker.engine()).stopContainer(id, graceSeconds, never);
      assert.deepEqual(docker.requests, [`POST /containers/${id}/stop?t=${sent}`]);
    });
  }

  test("stopContainer() waits as long as its caller, however slow the engine kills", async (context) => {
    await using docker = await startFakeDocker();
    let answer!: () => void;
    const isAsked = new Promise<void>((resolve) => {
      docker.answers.set(`POST /containers/${id}/stop`, (_request, response) => {
        answer = () => response.writeHead(204).end();
        resolve();
      });
    });
    const engine = await docker.engine();
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const stopped = engine.stopContainer(id, 1, never);
    await isAsked;
    context.mock.timers.tick(3_600_000);
    answer();
    assert.equal(await stopped, "stopped");
  });

  test("createContainer() marks errors after which the container may exist", async () => {
    await using docker = await startFakeDocker();
    const engine = await docker.engine({ shortTimeoutMs: 5_000 });
    const lost: readonly (readonly [string, Respond])[] = [
      ["closed before the answer", (request) => request.socket.destroy()],
      ["closed within the answer", cut('{"Id":')],
      ["not JSON", (_request, response) => response.writeHead(201).end('{"Id":')],
      ["no id", json({}, 201)],
    ];
    const isLost = (error: unknown): unknown => error instanceof ShimError && error.fields["answer"];
    for (const [what, respond] of lost) {
      docker.answers.set("POST /containers/create", respond);
      const creating = engine.createContainer("x", body, never);
      await assert.rejects(creating, (error) => isLost(error) === "lost", what);
    }
    docker.answers.set("POST /containers/create", refuse(500, "no space left on device"));
    await assert.rejects(engine.createContainer("x", body, never), (error) => isLost(error) === undefined);
  });

  const inProgress = refuse(409, `removal of container ${id} is already in progress`);

  test("removeContainer() waits for a removal that already runs", async () => {
    await using docker = await startFakeDocker();
    let inspects = 0;
    docker.answers.set(`DELETE /containers/${id}`, inProgress);
    docker.answers.set(`GET /containers/${id}/json`, (...args) => {
      inspects += 1;
      const removing = json({ Id: id, State: { Status: "removing" } });
      (inspects < 3 ? removing : refuse(404, "No such container"))(...args);
    });
    const engine = await docker.engine();
    assert.equal(await engine.removeContainer(id, { force: false }, never), "removed");
    assert.equal(docker.requests.filter((request) => request.startsWith("DELETE")).length, 1);
  });

  test("removeContainer() tries for itself when the other removal failed", async () => {
    await using docker = await startFakeDocker();
    let removals = 0;
    docker.answers.set(`DELETE /containers/${id}`, (...args) => {
      removals += 1;
      (removals === 1 ? inProgress : status(204))(...args);
    });
    docker.answers.set(`GET /containers/${id}/json`, json({ Id: id, State: { Status: "dead" } }));
    assert.equal(await (await docker.engine()).removeContainer(id, { force: false }, never), "removed");
    assert.equal(removals, 2);
  });

  test("removeContainer() does not wait for ever", async () => {
    await using docker = await startFakeDocker({
      [`DELETE /containers/${id}`]: inProgress,
      [`GET /containers/${id}/json`]: json({ Id: id, State: { Status: "removing" } }),
    });
    const engine = await docker.engine({ shortTimeoutMs: 120 });
    await assert.rejects(engine.removeContainer(id, { force: false }, never), { kind: "timeout" });
  });

  for (const [what, kind] of [
    [`No such container: ${id}`, "notFound"],
    // As Docker 20.10 says it of the container whose network it is to join.
    [`No such container: ${"e".repeat(64)}`, "precondition"],
    ["network nosuchnet not found", "precondition"],
  ] as const) {
    test(`startContainer() is ${kind} for "${what}"`, async () => {
      await using docker = await startFakeDocker({ [`POST /containers/${id}/start`]: refuse(404, what) });
      await assert.rejects((await docker.engine()).startContainer(id, never), { kind, message: what });
    });
  }
});

describe("DockerEngine events", () => {
  const label = "io.kubernetes.docker.type";

  function event(type: string, action: string, eventId: string, attributes: object = {}): string {
    return `${JSON.stringify({ Type: type, Action: action, Actor: { ID: eventId, Attributes: attributes }, time: 1 })}\n`;
  }

  test("reads events in chunks of any size; of unlabelled containers only create and destroy", async () => {
    await using docker = await startFakeDocker();
    const text = [
      event("container", "create", "1", { [label]: "container", name: "ü€" }),
      ...["create", "start", "destroy"].map((action) => event("container", action, "2", { other: "x" })),
      event("network", "connect", "3") + event("image", "pull", "busybox:1"),
      ...["container", "image"].map((type) => event(type, "prune", "", { reclaimed: "0" })),
      event("daemon", "reload", "engine") + event("container", "destroy", "1", { [label]: "" }),
    ].join("");
    docker.answers.set("GET /events", (_request, response) => {
      response.writeHead(200);
      for (const byte of Buffer.from(text)) response.write(Buffer.from([byte]));
    });
    const engine = await docker.engine();
    const stop = new AbortController();
    const seen: string[] = [];
    let open = 0;
    for await (const { type, action, id: eventId } of engine.events(label, () => (open += 1), stop.signal)) {
      seen.push(`${type} ${action} ${eventId}`);
      if (type === "container" && action === "destroy") stop.abort();
    }
    assert.deepEqual(seen, [
      ...["container create 1", "otherContainer create 2", "otherContainer destroy 2"],
      ...["image pull busybox:1", "image prune ", "daemon reload engine", "container destroy 1"],
    ]);
    assert.equal(open, 1);
    const filters = new URL(docker.requests[0]?.slice(4) ?? "", "http://x").searchParams.get("filters") ?? "";
    assert.doesNotMatch(filters, /exec|label/);
    assert.match(filters, /"daemon".*"reload"/);
    for (const action of ["pull", "push", "tag", "untag", "delete", "prune"])
      assert.ok(filters.includes(`"${action}"`), action);
    while (docker.sockets.size > 1) await new Promise(setImmediate);
  });

  const pull = event("image", "pull", "x");
  for (const [name, respond] of [
    ["ends", (_request, response) => response.end(pull)],
    ["breaks", (_, response) => response.write(pull, () => setImmediate(() => response.socket?.destroy()))],
  ] as readonly (readonly [string, Respond])[]) {
    test(`a stream that ${name} throws unavailable after its last event`, async () => {
      await using docker = await startFakeDocker({ "GET /events": respond });
      const engine = await docker.engine();
      const seen: string[] = [];
      const read = async (): Promise<void> => {
        for await (const { id: eventId } of engine.events(label, () => undefined, never)) seen.push(eventId);
      };
      await assert.rejects(read(), { kind: "unavailable" });
      assert.deepEqual(seen, ["x"]);
    });
  }

  test("a refused subscription throws and was never open", async () => {
    await using docker = await startFakeDocker({ "GET /events": refuse(500, "no events today") });
    const engine = await docker.engine();
    const events = engine.events(label, () => assert.fail("open"), never);
    const next = events[Symbol.asyncIterator]().next();
    await assert.rejects(next, { message: "no events today" });
  });
});

describe("DockerEngine exec", () => {
  const upgraded = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
  const options = { command: ["true"], tty: false, stdin: true, stdout: true, stderr: true };

  test("startExec() ends with its deadline when the engine is frozen", async () => {
    await using docker = await startFakeDocker();
    docker.server.on("upgrade", () => undefined);
    const engine = await docker.engine({ shortTimeoutMs: 50 });
    await assert.rejects(engine.startExec("e", options, never), { kind: "timeout" });
  });

  test("input to an ended process does not crash, and close() ends the reader", async () => {
    await using docker = await startFakeDocker();
    docker.server.on("upgrade", (_request, socket) => {
      socket.on("error", () => undefined);
      socket.write(upgraded, () => socket.destroy());
    });
    const engine = await docker.engine();
    const streams = await engine.startExec("e", options, never);
    streams.input.write("x".repeat(100_000));
    await streams
      .readOutput(() => undefined)
      .catch((error: unknown) => assert.ok(isKind(error, "unavailable")));
    streams.close();
    streams.close();
  });

  test("close() ends a reader that waits", async () => {
    await using docker = await startFakeDocker();
    docker.server.on("upgrade", (_request, socket) => {
      socket.on("error", () => undefined);
      socket.write(`${upgraded}\x01\0\0\0\0\0\0\x02hi`);
    });
    const engine = await docker.engine();
    const streams = await engine.startExec("e", options, never);
    // The first bytes of the output come with the head of the answer.
    const { promise: first, resolve: onFirst } = withResolvers<string>();
    const reading = streams.readOutput((_, data) => {
      onFirst(data.toString());
      return undefined;
    });
    const ended = assert.rejects(reading, { kind: "cancelled" });
    assert.equal(await first, "hi");
    streams.close();
    await ended;
  });
});

describe("DockerEngine logs", () => {
  test("close() ends a reader that waits", async () => {
    await using docker = await startFakeDocker({
      [`GET /containers/${id}/logs`]: (_request, response) => response.write("hi"),
    });
    const engine = await docker.engine();
    const log = await engine.containerLogs(id, { sinceSeconds: 0, follow: true, tty: true }, never);
    const reading = log.readOutput(() => {
      setImmediate(() => log.close());
      return undefined;
    });
    await assert.rejects(orAbort(reading, AbortSignal.timeout(10_000)), { kind: "cancelled" });
    while (docker.sockets.size > 1) await new Promise(setImmediate);
  });
});

describe("DockerEngine files", () => {
  const archive = `GET /containers/${id}/archive`;
  /** The head of an archive with one file, and what comes of it. */
  const file =
    (stat: object, part = ""): Respond =>
    (_request, response) => {
      const text = JSON.stringify({ name: "x", mode: 420, ...stat });
      response.setHeader("X-Docker-Container-Path-Stat", Buffer.from(text).toString("base64"));
      if (part === "") response.end();
      else response.write(part);
    };

  test("getArchive() closes the connection when the stream is destroyed before the first read", async () => {
    await using docker = await startFakeDocker({ [archive]: (_request, response) => response.write("part") });
    const engine = await docker.engine();
    const open = docker.sockets.size;
    const stream = await engine.getArchive(id, "/x", never);
    stream?.destroy();
    while (docker.sockets.size > open) await new Promise(setImmediate);
  });

  test("getArchive() fails when the stream is cut and when its caller leaves", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set(archive, (_request, response) =>
      response.write("part", () => setTimeout(() => response.socket?.destroy(), 5)),
    );
    const engine = await docker.engine();
    const read = async (signal: AbortSignal): Promise<void> => {
      const stream = await engine.getArchive(id, "/x", signal);
      for await (const _ of stream ?? []);
    };
    await assert.rejects(read(never), { kind: "unavailable" });
    docker.answers.set(archive, (_request, response) => response.write("part"));
    const caller = new AbortController();
    const reading = read(caller.signal);
    setTimeout(() => caller.abort(), 20);
    await assert.rejects(reading, { kind: "cancelled" });
  });

  test("readContainerFile() refuses a file that is too large by its head alone", async () => {
    await using docker = await startFakeDocker({ [archive]: file({ size: 1_000_000 }, "never ends") });
    const message = `read "/x" of container "${id}": larger than 1000 bytes`;
    await rejectsWith((await docker.engine()).readContainerFile(id, "/x", 1000, never), "invalid", message);
  });

  test("readContainerFile() does not follow a link for ever", async () => {
    await using docker = await startFakeDocker({ [archive]: file({ size: 1, linkTarget: "/x" }) });
    assert.equal(await (await docker.engine()).readContainerFile(id, "/x", 1000, never), undefined);
    assert.equal(docker.requests.length, 2);
  });

  test("readContainerFile() ends with its deadline in the middle of the content", async () => {
    await using docker = await startFakeDocker({ [archive]: file({ size: 10 }, "stalls") });
    const engine = await docker.engine({ shortTimeoutMs: 60 });
    await assert.rejects(engine.readContainerFile(id, "/x", 1000, never), { kind: "timeout" });
  });

  for (const [message, outcome] of [
    ["Could not find the file /x in container abc", undefined],
    [`No such container: ${id}`, "notFound"],
  ] as const) {
    test(`readContainerFile(): "${message.slice(0, 20)}…" is ${outcome}`, async () => {
      await using docker = await startFakeDocker({ [archive]: refuse(404, message) });
      const read = (await docker.engine()).readContainerFile(id, "/x", 1000, never);
      if (outcome === undefined) assert.equal(await read, undefined);
      else await rejectsWith(read, outcome);
    });
  }
});

describe("DockerEngine images", () => {
  test("inspectImage() keeps the slashes of a name, and everything else out of the path", async () => {
    await using docker = await startFakeDocker({ "GET /images/*": json({ Id: "sha256:x" }) });
    const engine = await docker.engine();
    await engine.inspectImage("reg:5000/a/b:1", never);
    assert.equal(await engine.inspectImage("a/../../containers", never), undefined);
    assert.deepEqual(docker.requests, ["GET /images/reg%3A5000/a/b%3A1/json"]);
  });

  test("removeImage() takes the race of two removals for a removal", async () => {
    await using docker = await startFakeDocker();
    const engine = await docker.engine();
    docker.answers.set("DELETE /images/*", refuse(500, "unrecognized image ID sha256:abc"));
    assert.equal(await engine.removeImage("a:1", never), "missing");
    docker.answers.set("DELETE /images/*", refuse(500, "disk on fire"));
    await assert.rejects(engine.removeImage("a:1", never), { message: "disk on fire" });
    docker.answers.set("DELETE /images/*", refuse(409, "image is being used by running container abc"));
    await assert.rejects(engine.removeImage("a:1", never), { kind: "precondition" });
  });

  test("loadImage() throws an error in the stream of a success", async () => {
    await using docker = await startFakeDocker({
      "POST /images/load": (_request, response) =>
        response.end('{"errorDetail":{"message":"no space left"}}\n'),
    });
    const loading = (await docker.engine()).loadImage(Buffer.from("tar"), never);
    await assert.rejects(loading, { message: "no space left" });
  });

  for (const [apiVersion, usage, bytes] of [
    ["1.45", { LayersSize: 5 }, 5],
    ["1.51", {}, undefined],
    ["1.51", { ImageUsage: { TotalSize: 6 } }, 6],
  ] as const) {
    test(`imageDiskUsage() at ${apiVersion} reads ${JSON.stringify(usage)}`, async () => {
      await using docker = await startFakeDocker({
        "GET /version": json({ Version: "x", ApiVersion: apiVersion }),
        "GET /system/df": json(usage),
      });
      assert.equal(await (await docker.engine()).imageDiskUsage(never), bytes);
      assert.deepEqual(docker.requests, ["GET /system/df?type=image"]);
    });
  }

  test("imageDiskUsage() at 1.41 adds up histories instead of having all volumes measured", async () => {
    await using docker = await startFakeDocker({
      "GET /version": json({ Version: "20.10.24", ApiVersion: "1.41" }),
      "GET /images/json": json([{ Id: "a" }, { Id: "gone" }]),
      "GET /images/a/history": json([{ CreatedBy: "x", Size: 7 }]),
      "GET /images/gone/history": refuse(404, "No such image: gone"),
    });
    assert.equal(await (await docker.engine()).imageDiskUsage(never), 7);
  });

  const identities = "GET /images/json?manifests=1&identity=1";
  for (const [highest, lowest, target, spoken] of [
    ["1.41", "1.12", "GET /images/json", "1.41"],
    ["1.53", "1.40", "GET /images/json", "1.51"],
    ["1.54", "1.40", identities, "1.54"],
    ["1.60", "1.58", identities, "1.58"],
  ] as const) {
    test(`listImages() of an engine with API ${lowest} to ${highest} asks in API ${spoken}, with identities where they are known`, async () => {
      await using docker = await startFakeDocker({
        "GET /version": json({ Version: "x", ApiVersion: highest, MinAPIVersion: lowest }),
        "GET /images/json": json([{ RepoTags: ["odd:1"] }, { Id: "a" }]),
      });
      const images = await (await docker.engine()).listImages(never);
      const ids = images.map((image) => image.id);
      assert.deepEqual(ids, ["a"], "an entry without an id is left out");
      assert.deepEqual(docker.requests, [target]);
      assert.equal([...docker.versions].at(-1), spoken);
    });
  }

  test("hanging calls end when their caller leaves, whatever the verb", async () => {
    await using docker = await startFakeDocker();
    for (const method of ["GET", "POST", "DELETE", "PUT"]) docker.answers.set(`${method} /*`, hang);
    docker.server.on("upgrade", (_request, socket) => socket.resume().on("end", () => socket.destroy()));
    const engine = await docker.engine();
    const caller = new AbortController();
    const { signal } = caller;
    const options = { command: [], tty: false, stdin: false, stdout: true, stderr: true };
    const calls: readonly Promise<unknown>[] = [
      engine.ping({ timeoutMs: 60_000 }, signal),
      engine.listContainers({ labelKey: "x" }, signal),
      engine.inspectContainer(id, signal),
      engine.createContainer("x", body, signal),
      engine.startContainer(id, signal),
      engine.stopContainer(id, 600, signal),
      engine.killContainer(id, "SIGTERM", signal),
      engine.removeContainer(id, { force: true }, signal),
      engine.updateContainer(id, { Memory: 1 }, signal),
      engine.getArchive(id, "/", signal),
      engine.readContainerFile(id, "/", 1, signal),
      engine.putArchive(id, "/", Buffer.from("x"), signal),
      engine.createExec(id, options, signal),
      engine.startExec(id, options, signal),
      engine.inspectExec("e", signal),
      engine.listImages(signal),
      engine.inspectImage("a", signal),
      engine.imageHistory("a", signal),
      engine.pullImage("a", undefined, () => undefined, signal),
      engine.removeImage("a", signal),
      engine.loadImage(Buffer.from("x"), signal),
      engine.imageDiskUsage(signal),
    ];
    const settled = Promise.allSettled(calls);
    // All but the exec's, which the server does not see as a request.
    await docker.until((requests) => requests.length === calls.length - 1);
    caller.abort();
    for (const result of await settled) {
      assert.equal(result.status, "rejected");
      assert.ok(isKind(result.reason, "cancelled"), String(result.reason));
    }
    while (docker.sockets.size > 0) await new Promise(setImmediate);
  });
});
