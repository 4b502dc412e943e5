import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isKind } from "../../src/lib/errors.js";
import { anySignal, engineOfSuite, reasonToSkip, testLabel } from "./engine-support.js";

describe("DockerEngine, containers", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  const at = engineOfSuite();

  test("connect() reads facts that hold together", () => {
    const { facts } = at;
    // Engines of distributions need not have a number here.
    assert.notEqual(facts.engineVersion, "");
    assert.ok(facts.apiMinor >= 41 && facts.apiMinor <= 51, String(facts.apiMinor));
    assert.match(facts.dockerRootDir, /^\//);
    assert.ok(facts.totalMemory > 1024 * 1024);
    assert.notEqual(facts.engineId, "");
    assert.ok(facts.runtimes.some(({ name }) => name === facts.defaultRuntime));
    assert.equal(facts.imageStore === "containerd", facts.storageDriver === "overlayfs");
  });

  test("a container goes through its life, and each verb says when there is nothing to do", async () => {
    const { engine } = at;
    await using container = await at.container({
      Labels: { [testLabel]: at.run, __proto__: "odd" },
      Env: ["A=b"],
      StopSignal: "SIGKILL",
      Tty: true,
      OpenStdin: true,
      User: "7:8",
      HostConfig: {
        NetworkMode: "none",
        Memory: 64 << 20,
        MemorySwap: 64 << 20,
        CpuShares: 77,
        GroupAdd: ["9"],
        ReadonlyRootfs: true,
        Mounts: [
          {
            Type: "bind",
            Source: "/etc",
            Target: "/mnt",
            ReadOnly: true,
            BindOptions: { Propagation: "rprivate" },
          },
        ],
        Binds: ["/tmp:/scratch:ro"],
      },
    });
    const { id, name } = container;
    const created = await engine.inspectContainer(id, anySignal());
    assert.ok(created);
    assert.equal(created.id, id);
    assert.equal(created.name, name);
    assert.deepEqual(
      { ...created.state, error: "" },
      {
        status: "created",
        running: false,
        pid: 0,
        exitCode: 0,
        oomKilled: false,
        error: "",
        started: 0n,
        finished: 0n,
      },
    );
    assert.ok(created.created > 1_600_000_000_000_000_000n);
    assert.equal(created.imageName, at.image);
    assert.equal(created.imageId, (await engine.inspectImage(at.image, anySignal()))?.id);
    assert.deepEqual(
      [created.user, created.tty, created.openStdin, created.stdinOnce, created.stopSignal, created.groupAdd],
      ["7:8", true, true, false, "SIGKILL", ["9"]],
    );
    assert.equal(created.labels[testLabel], at.run);
    assert.deepEqual(
      [created.networkMode, created.privileged, created.runtime],
      ["none", false, at.facts.defaultRuntime],
    );
    assert.deepEqual([created.resources.memory, created.resources.cpuShares], [64 << 20, 77]);
    assert.deepEqual(
      created.requestedMounts.map((mount) => [
        mount.type,
        mount.source,
        mount.target,
        mount.readOnly,
        mount.propagation,
      ]),
      [
        ["bind", "/etc", "/mnt", true, "rprivate"],
        ["bind", "/tmp", "/scratch", true, ""],
      ],
    );
    assert.deepEqual(created.mounts.map((mount) => [mount.destination, mount.readOnly]).sort(), [
      ["/mnt", true],
      ["/scratch", true],
    ]);
    assert.deepEqual(created.addresses, []);

    assert.equal(await engine.killContainer(id, "SIGTERM", anySignal()), "notRunning");
    assert.equal(await engine.startContainer(id, anySignal()), "started");
    assert.equal(await engine.startContainer(id, anySignal()), "already");
    const running = await engine.inspectContainer(id, anySignal());
    assert.equal(running?.state.status, "running");
    assert.ok(running.state.pid > 0);
    assert.ok(running.state.started > created.created);
    assert.match(running.logPath, /json\.log$/);

    const listed = await engine.listContainers({ labelKey: testLabel, labelValue: at.run }, anySignal());
    const entry = listed.find((one) => one.id === id);
    assert.deepEqual([entry?.status, entry?.names, entry?.labels[testLabel]], ["running", [name], at.run]);
    const byKey = await engine.listContainers({ labelKey: testLabel }, anySignal());
    assert.ok(byKey.some((one) => one.id === id));
    const byOther = await engine.listContainers({ labelKey: testLabel, labelValue: "other" }, anySignal());
    assert.deepEqual(byOther, []);

    await engine.updateContainer(id, { Memory: 32 << 20, MemorySwap: 32 << 20, CpuShares: 99 }, anySignal());
    const updated = await engine.inspectContainer(id, anySignal());
    assert.deepEqual([updated?.resources.memory, updated?.resources.cpuShares], [32 << 20, 99]);

    assert.equal(await engine.stopContainer(id, 5, anySignal()), "stopped");
    assert.equal(await engine.stopContainer(id, 5, anySignal()), "already");
    const stopped = await engine.inspectContainer(id, anySignal());
    assert.deepEqual(
      [stopped?.state.status, stopped?.state.exitCode, stopped?.state.pid],
      ["exited", 137, 0],
    );
    assert.ok((stopped?.state.finished ?? 0n) > (stopped?.state.started ?? 0n));

    assert.equal(await engine.removeContainer(id, { force: false }, anySignal()), "removed");
    assert.equal(await engine.removeContainer(id, { force: false }, anySignal()), "missing");
    assert.equal(await engine.stopContainer(id, 1, anySignal()), "missing");
    assert.equal(await engine.killContainer(id, "SIGTERM", anySignal()), "missing");
    assert.equal(await engine.inspectContainer(id, anySignal()), undefined);
    await assert.rejects(engine.startContainer(id, anySignal()), (error) => isKind(error, "notFound"));
  });

  test("a taken name is a conflict with the id of the container that has it", async () => {
    await using container = await at.container();
    const body = { Image: at.image, Labels: { [testLabel]: at.run }, HostConfig: {} };
    await assert.rejects(at.engine.createContainer(container.name, body, anySignal()), (error) => {
      assert.ok(isKind(error, "conflict"), String(error));
      assert.equal(error.fields["conflictingId"], container.id);
      return true;
    });
  });

  test("a create from an image that is not there is notFound and says what is missing", async () => {
    await assert.rejects(at.container({ Image: "dockershim.local/nosuch:1" }), (error) => {
      assert.ok(isKind(error, "notFound"), String(error));
      assert.equal(error.fields["missing"], "image");
      return true;
    });
  });

  test("a create ends with its caller; the engine finishes it, and it is found by its name", async () => {
    // Too early, and the engine never hears of it; too late, and the answer is there: some moment in between is right.
    for (let afterMs = 2; afterMs < 100; afterMs += 3) {
      const name = `dockershim-engine-test-${at.run}-left-${String(afterMs)}`;
      const body = { Image: at.image, Labels: { [testLabel]: at.run }, HostConfig: { NetworkMode: "none" } };
      const creation = at.engine.createContainer(name, body, AbortSignal.timeout(afterMs));
      const hasEnded = await creation.then(
        () => false,
        () => true,
      );
      await sleep(1_000);
      const found = await at.engine.inspectContainer(name, anySignal());
      if (found !== undefined) await at.engine.removeContainer(found.id, { force: true }, anySignal());
      if (hasEnded && found !== undefined) return;
    }
    assert.fail("no create was given up and finished by the engine");
  });

  test("a caller that leaves ends its wait for a stop at once, while the container goes on stopping", async () => {
    await using container = await at.container({ Cmd: ["sh", "-c", "trap '' TERM; sleep 3600"] });
    await at.engine.startContainer(container.id, anySignal());
    const caller = new AbortController();
    const stop = at.engine.stopContainer(container.id, 600, caller.signal);
    setTimeout(() => caller.abort(), 50);
    await assert.rejects(stop, (error) => isKind(error, "cancelled"));
    assert.equal((await at.engine.inspectContainer(container.id, anySignal()))?.state.running, true);
  });

  test("a running container is not removed without force", async () => {
    await using container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
    await assert.rejects(at.engine.removeContainer(container.id, { force: false }, anySignal()), (error) =>
      isKind(error, "precondition"),
    );
  });

  test("files go into a container and come out of it, running or not", async () => {
    const { engine } = at;
    await using container = await at.container();
    const { id } = container;
    const read = async (path: string, limit = 4096): Promise<string | undefined> =>
      (await engine.readContainerFile(id, path, limit, anySignal()))?.toString();

    assert.equal(await read("/etc/passwd"), "root:x:0:0::/:/bin/sh\n");
    assert.equal(await read("/etc/link"), "root:x:0:0::/:/bin/sh\n");
    assert.equal(await read("/etc"), undefined);
    assert.equal(await read("/nosuch"), undefined);
    assert.equal(await read("/etc/passwd/below"), undefined);
    await assert.rejects(read("/etc/link", 5), (error) => isKind(error, "invalid"));

    assert.equal((await engine.statArchive(id, "/etc", anySignal()))?.isDirectory, true);
    assert.equal((await engine.statArchive(id, "/etc/link", anySignal()))?.linkTarget, "/etc/passwd");
    assert.equal((await engine.statArchive(id, "/etc/passwd", anySignal()))?.size, 22);
    assert.equal(await engine.statArchive(id, "/nosuch", anySignal()), undefined);
    assert.equal(await engine.getArchive(id, "/nosuch", anySignal()), undefined);
    await assert.rejects(engine.getArchive("nosuch", "/etc", anySignal()), (error) =>
      isKind(error, "notFound"),
    );

    const tar = await engine.getArchive(id, "/etc/passwd", anySignal());
    assert.ok(tar);
    const chunks: Buffer[] = [];
    for await (const chunk of tar) chunks.push(chunk as Buffer);
    await engine.putArchive(id, "/bin", Buffer.concat(chunks), anySignal());
    assert.equal(await read("/bin/passwd"), "root:x:0:0::/:/bin/sh\n");

    const copy = await engine.getArchive(id, "/etc/passwd", anySignal());
    assert.ok(copy);
    await engine.putArchive(id, "/", copy, anySignal());
    assert.equal(await read("/passwd"), "root:x:0:0::/:/bin/sh\n");
    await assert.rejects(engine.putArchive(id, "/nosuch", Buffer.concat(chunks), anySignal()), (error) =>
      isKind(error, "notFound"),
    );
  });

  test("every call is observed with its verb and outcome", async () => {
    const before = at.observations.length;
    await at.engine.inspectContainer("nosuch", anySignal());
    await assert.rejects(at.engine.startContainer("nosuch", anySignal()));
    const seen = at.observations.slice(before).map(({ verb, kind }) => [verb, kind]);
    assert.deepEqual(seen, [
      ["inspectContainer", undefined],
      ["startContainer", "notFound"],
    ]);
  });
});
