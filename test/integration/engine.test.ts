import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isKind } from "../../src/lib/errors.js";
import type { EngineEvent } from "../../src/shim/ports/engine.js";
import { anySignal, engineContract, testLabel } from "../support/engine-contract.js";
import { engineOfSuite, reasonToSkip } from "./engine-support.js";

describe(
  "DockerEngine, and what the fake one has in common with it",
  { skip: await reasonToSkip(), timeout: 120_000 },
  () => {
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

    engineContract(at);

    test("a create ends with its caller; the engine finishes it, and it is found by its name", async () => {
      // Too early, and the engine never hears of it; too late, and the answer is there: some moment in between is right.
      for (let afterMs = 2; afterMs < 100; afterMs += 3) {
        const name = `dockershim-engine-test-${at.run}-left-${String(afterMs)}`;
        const body = {
          Image: at.image,
          Labels: { [testLabel]: at.run },
          HostConfig: { NetworkMode: "none" },
        };
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

    /** Collects events until `enough`; the subscription is open when this has resolved. */
    async function subscribe(): Promise<{
      readonly events: readonly EngineEvent[];
      until(enough: (events: readonly EngineEvent[]) => boolean): Promise<void>;
      end(): Promise<void>;
    }> {
      const stop = new AbortController();
      const events: EngineEvent[] = [];
      let ended: Promise<void> | undefined;
      await new Promise<void>((resolve, reject) => {
        const read = async (): Promise<void> => {
          for await (const event of at.engine.events(testLabel, resolve, stop.signal)) events.push(event);
        };
        ended = read();
        ended.catch(reject);
      });
      return {
        events,
        until: async (enough) => {
          while (!enough(events)) await sleep(10, undefined, { signal: anySignal() });
        },
        end: async () => {
          stop.abort();
          await ended;
        },
      };
    }

    test("the life of a labelled container is told, its execs are not, and of others only that they come and go", async () => {
      const subscription = await subscribe();
      try {
        await using foreign = await at.container({ Labels: {} });
        await at.engine.startContainer(foreign.id, anySignal());
        const container = await at.container();
        await at.engine.startContainer(container.id, anySignal());
        const options = { command: ["true"], tty: false, stdin: false, stdout: true, stderr: true };
        const execId = await at.engine.createExec(container.id, options, anySignal());
        const streams = await at.engine.startExec(execId, options, anySignal());
        await streams.readOutput(() => undefined);
        streams.close();
        await container[Symbol.asyncDispose]();
        const own = (): readonly string[] =>
          subscription.events.filter(({ id }) => id === container.id).map(({ action }) => action);
        await subscription.until(() => own().includes("destroy"));
        assert.deepEqual(own(), ["create", "start", "die", "destroy"]);
        await foreign[Symbol.asyncDispose]();
        const foreignEvents = (): readonly string[] =>
          subscription.events
            .filter(({ id }) => id === foreign.id)
            .map(({ type, action }) => `${type} ${action}`);
        await subscription.until(() => foreignEvents().length > 1);
        assert.deepEqual(foreignEvents(), ["otherContainer create", "otherContainer destroy"]);
        assert.ok(subscription.events.every(({ type, id }) => type === "image" || /^[0-9a-f]{64}$/.test(id)));
      } finally {
        await subscription.end();
      }
    });

    test("what happens right after onOpen is not missed", async () => {
      for (let round = 0; round < 3; round += 1) {
        const subscription = await subscribe();
        try {
          await using container = await at.container();
          await subscription.until((events) => events.some(({ id }) => id === container.id));
        } finally {
          await subscription.end();
        }
      }
    });
  },
);
