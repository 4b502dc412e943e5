import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejectsWith } from "../../support/refusals.js";
import { messageOf } from "../../../src/lib/errors.js";
import {
  kindOfRegistryError,
  pullQuery,
  registryAuthHeaders,
} from "../../../src/shim/engine/pull-protocol.js";
import type { PullProgress, RegistryCredentials } from "../../../src/shim/ports/engine.js";
import { errorTexts } from "./full-answers.js";
import { cut, refuse, type Respond, startFakeDocker } from "./fake-docker.js";

const digest = `sha256:${"0f".repeat(32)}`;

const never = new AbortController().signal;

describe("pullQuery()", () => {
  for (const [reference, fromImage, tag] of [
    ["busybox", "docker.io/library/busybox", "latest"],
    ["user/app:2", "docker.io/user/app", "2"],
    ["127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b", "latest"],
    [`registry.k8s.io/pause@${digest}`, "registry.k8s.io/pause", digest],
    [`registry.k8s.io/pause:3@${digest}`, "registry.k8s.io/pause", digest],
  ] as const) {
    test(reference.slice(0, 40), () => {
      assert.deepEqual(pullQuery(reference), { fromImage, tag });
    });
  }

  for (const reference of ["", "UPPER", "a b", "0".repeat(64), "a:", "a@sha256:1"]) {
    test(`${JSON.stringify(reference.slice(0, 20))} is no image name`, () => {
      assert.throws(() => pullQuery(reference), { kind: "invalid" });
    });
  }
});

describe("registryAuthHeaders()", () => {
  function decode(reference: string, credentials: RegistryCredentials): unknown {
    const header = registryAuthHeaders(reference, credentials)["X-Registry-Auth"] ?? "";
    assert.match(header, /^[A-Za-z0-9_-]+={0,2}$/);
    return JSON.parse(Buffer.from(header, "base64url").toString("utf8"));
  }

  test("user and password go with the address of the image's registry, not with that of the credentials", () => {
    const credentials = { username: "ü?>", password: "p~~~?", serverAddress: "https://other" };
    assert.deepEqual(decode("reg.example:5000/a:1", credentials), {
      username: "ü?>",
      password: "p~~~?",
      serveraddress: "reg.example:5000",
    });
  });

  test("Docker Hub has the address that the engine itself uses", () => {
    assert.deepEqual(decode("busybox", { identityToken: "i", registryToken: "r" }), {
      identitytoken: "i",
      registrytoken: "r",
      serveraddress: "https://index.docker.io/v1/",
    });
  });

  test("without credentials there is no header", () => {
    assert.deepEqual(registryAuthHeaders("busybox", undefined), {});
  });
});

describe("kindOfRegistryError()", () => {
  for (const [kind, all] of Object.entries(errorTexts.registry)) {
    test(`${kind} is told by what registries say`, () => {
      for (const text of all) assert.equal(kindOfRegistryError(text, 0), kind, text);
    });
  }

  test("the code counts when the text says nothing", () => {
    const found = [401, 404, 503, 500].map((code) => kindOfRegistryError("x", code));
    assert.deepEqual(found, ["denied", "notFound", "unavailable", "unknown"]);
  });
});

describe("DockerEngine.pullImage()", () => {
  async function pull(
    respond: Respond,
    credentials?: RegistryCredentials,
    onProgress: (progress: PullProgress) => void = () => undefined,
  ): Promise<readonly string[]> {
    await using docker = await startFakeDocker({ "POST /images/create": respond });
    await (await docker.engine()).pullImage("reg.example/a:1", credentials, onProgress, never);
    return docker.requests;
  }

  const lines =
    (...messages: readonly object[]): Respond =>
    (_request, response) =>
      response.end(messages.map((message) => `${JSON.stringify(message)}\r\n`).join(""));

  test("each message is progress", async () => {
    const seen: PullProgress[] = [];
    const progressDetail = { current: 5, total: 9 };
    const messages = lines(
      { status: "Pulling from a", id: "1" },
      { status: "Downloading", id: "f00", progressDetail, progress: "[=>]" },
      { status: "Digest: sha256:x" },
    );
    const requests = await pull(messages, undefined, (progress) => seen.push(progress));
    assert.deepEqual(seen, [
      { layer: "1", status: "Pulling from a", current: 0, total: 0 },
      { layer: "f00", status: "Downloading", current: 5, total: 9 },
      { layer: "", status: "Digest: sha256:x", current: 0, total: 0 },
    ]);
    assert.deepEqual(requests, ["POST /images/create?fromImage=reg.example%2Fa&tag=1"]);
  });

  for (const [name, message] of [
    ["errorDetail", { errorDetail: { message: "manifest unknown" } }],
    ["error", { error: "manifest unknown" }],
  ] as const) {
    test(`"${name}" in the stream of a success is the call's error`, async () => {
      await rejectsWith(pull(lines({ status: "Pulling" }, message)), "notFound", "manifest unknown");
    });
  }

  test("a refusal before the stream is classified by its text", async () => {
    const text = "Get https://reg.example/v2/: dial tcp: lookup reg.example: no such host";
    await rejectsWith(pull(refuse(500, text)), "unavailable", text);
    await rejectsWith(pull(refuse(500, "out of disk")), "unknown", "out of disk");
    await assert.rejects(pull(refuse(404, "whatever")), { kind: "notFound" });
  });

  test("a stream that is cut is no success", async () => {
    await assert.rejects(pull(cut('{"status":"Pull complete"}\n')), { kind: "unavailable" });
  });

  test("no error mentions the credentials", async () => {
    const credentials = { username: "user", password: "hunter2" };
    for (const respond of [refuse(500, "unauthorized"), cut("{"), lines({ error: "denied" })]) {
      await assert.rejects(pull(respond, credentials), (error) => {
        assert.doesNotMatch(messageOf(error), /hunter2|aHVudGVy/);
        return true;
      });
    }
  });

  test("a caller that leaves closes the connection, which is how a pull is cancelled", async () => {
    await using docker = await startFakeDocker();
    docker.answers.set("POST /images/create", (_request, response) =>
      response.write('{"status":"Downloading"}\n'),
    );
    const engine = await docker.engine();
    const caller = new AbortController();
    const pulling = engine.pullImage("a:1", undefined, () => caller.abort(), caller.signal);
    await assert.rejects(pulling, { kind: "cancelled" });
    while (docker.sockets.size > 1) await new Promise(setImmediate);
  });

  test("a throwing progress callback ends the pull with its error", async () => {
    const pulling = pull(lines({ status: "x" }), undefined, () => {
      throw new Error("callback");
    });
    await assert.rejects(pulling, /callback/);
  });
});
