import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test, type TestContext } from "node:test";
import { streamOnce } from "../../../../src/migrate/rehearse/new-pods.js";

/** The URL of a server that answers each request with `texts`, each in a packet of its own, and closes. */
async function answering(t: TestContext, ...texts: readonly string[]): Promise<string> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.once("data", () => {
      for (const [index, text] of texts.entries()) setTimeout(() => socket.write(text), index * 20);
      setTimeout(() => socket.end(), texts.length * 20);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/exec/x`;
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const ask = (url: string): Promise<void> => streamOnce(url, /refused/, AbortSignal.timeout(5_000));

test("streamOnce() returns with the wanted text, also when it comes in one packet with the head", async (t) => {
  await ask(await answering(t, switching, "\x81\x07refused"));
  await ask(await answering(t, `${switching}\x81\x07refused`));
});

test("streamOnce() tells how a session ended without the wanted text", async (t) => {
  await assert.rejects(ask(await answering(t, switching, "\x81\x02no")), /it ended after ".*no"/);
  await assert.rejects(ask(await answering(t, "HTTP/1.1 404 Not Found\r\n\r\n")), /HTTP status 404/);
});
