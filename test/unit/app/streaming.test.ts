import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { openStreaming } from "../../../src/shim/app/adapters.js";
import { configOf } from "../../fakes/config.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { fakeCommand, sleepForever } from "../../fakes/streaming-sessions.js";

describe("openStreaming()", () => {
  test("listens where the flag says, until the lifetime ends", async () => {
    const log = recordingLog();
    const lifetime = new Lifetime(log);
    const config = await configOf({ "streaming-bind-addr": "127.0.0.1" });
    const server = await openStreaming(config, log, lifetime);
    const url = server.offer(fakeCommand(sleepForever));
    assert.match(url, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/exec\//);
    await lifetime.close();
    await assert.rejects(fetch(url));
  });

  test("throws invalid, with the flag, for a file that cannot be read", async () => {
    const log = recordingLog();
    const config = await configOf({
      "streaming-tls-cert-file": "/nonexistent/cert.pem",
      "streaming-tls-private-key-file": "/nonexistent/key.pem",
    });
    await assert.rejects(
      openStreaming(config, log, new Lifetime(log)),
      (error) => isKind(error, "invalid") && error.message.startsWith("--streaming-tls-cert-file: read"),
    );
  });
});
