/** The engine calls that image volumes are made with. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejectsWith } from "../../support/refusals.js";
import { buildTar } from "../../../src/shim/pause/image-archive.js";
import { type FakeDocker, json, refuse, type Respond, startFakeDocker } from "./fake-docker.js";

const from = { id: "a".repeat(64), path: "/x" };
const to = { id: "b".repeat(64), path: "/y" };
const getArchive = `GET /containers/${from.id}/archive`;
const putArchive = `PUT /containers/${to.id}/archive`;

const never = new AbortController().signal;

function bytes(content: Buffer): Respond {
  return (_request, response) => response.end(content);
}

async function untilClosed({ sockets }: FakeDocker, open: number): Promise<void> {
  while (sockets.size > open) await new Promise(setImmediate);
}

describe("copyDirectory()", () => {
  const all = { leaveOut: new Set<string>(), root: undefined };
  const file = (path: string) => ({ path, type: "file", mode: 0o644, content: Buffer.from(path) }) as const;

  test("puts what one archive call gives into the other, without what is left out", async () => {
    await using docker = await startFakeDocker();
    let put: Buffer = Buffer.alloc(0);
    docker.answers.set(getArchive, bytes(await buildTar([file("kept"), file("etc/hosts")])));
    docker.answers.set(putArchive, (_request, response, body) => {
      put = body;
      response.end();
    });
    const engine = await docker.engine();
    await engine.copyDirectory(from, to, { leaveOut: new Set(["etc/hosts"]), root: undefined }, never);
    assert.ok(put.equals(await buildTar([file("kept")])));
    const sent = docker.requests.filter((request) => request.includes("archive")).map(decodeURIComponent);
    assert.deepEqual(sent.sort(), [`${getArchive}?path=/x/.`, `${putArchive}?path=/y`]);
  });

  test("fails when the source breaks off, and does not leave the engine waiting for the rest", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set(getArchive, (_request, response) =>
      response.write(Buffer.alloc(100, "x"), () => setTimeout(() => response.socket?.destroy(), 5)),
    );
    docker.answers.set(putArchive, (_request, response) => response.end());
    const engine = await docker.engine();
    const open = docker.sockets.size;
    await rejectsWith(engine.copyDirectory(from, to, all, never), "unavailable");
    await untilClosed(docker, open);
  });

  for (const [what, path, answer, kind] of [
    ["a directory that is not there", getArchive, refuse(404, "Could not find the file /x"), "notFound"],
    ["a disk that is full", putArchive, refuse(500, "no space left on device"), "unknown"],
  ] as const) {
    test(`tells of ${what}`, async () => {
      await using docker = await startFakeDocker();
      docker.answers.set(getArchive, bytes(await buildTar([file("kept")])));
      docker.answers.set(path, answer);
      const engine = await docker.engine();
      await rejectsWith(engine.copyDirectory(from, to, all, never), kind);
    });
  }

  test("ends with its caller, and closes both connections", async () => {
    await using docker = await startFakeDocker();
    // A source that never ends.
    docker.answers.set(getArchive, (_request, response) => response.flushHeaders());
    const engine = await docker.engine();
    const open = docker.sockets.size;
    const caller = new AbortController();
    const copying = engine.copyDirectory(from, to, all, caller.signal);
    await docker.until((requests) => requests.some((request) => request.startsWith(getArchive)));
    setTimeout(() => caller.abort(), 10);
    await assert.rejects(copying, { kind: "cancelled" });
    await untilClosed(docker, open);
  });
});

describe("volumes", () => {
  test("are listed by label", async () => {
    await using docker = await startFakeDocker({
      "GET /volumes": json({ Volumes: [{ Name: "one" }, { Name: "two" }], Warnings: null }),
    });
    const engine = await docker.engine();
    assert.deepEqual(await engine.listVolumes({ key: "k", value: "v" }, never), ["one", "two"]);
    assert.match(decodeURIComponent(docker.requests.at(-1) ?? ""), /filters=\{"label":\["k=v"\]\}/);
    docker.answers.set("GET /volumes", json({ Volumes: null }));
    assert.deepEqual(await engine.listVolumes({ key: "k", value: "v" }, never), []);
  });

  test("are removed unless a container has them", async () => {
    await using docker = await startFakeDocker();
    const engine = await docker.engine();
    docker.answers.set("DELETE /volumes/one", (_request, response) => response.writeHead(204).end());
    docker.answers.set("DELETE /volumes/two", refuse(404, "get two: no such volume"));
    docker.answers.set("DELETE /volumes/three", refuse(409, "remove three: volume is in use - [c]"));
    assert.equal(await engine.removeVolume("one", never), "removed");
    assert.equal(await engine.removeVolume("two", never), "missing");
    await assert.rejects(engine.removeVolume("three", never), { kind: "precondition" });
  });
});
