import assert from "node:assert/strict";
import { test } from "node:test";
import { Sender, UnfinishedRequests } from "../../../../src/shim/grpc/guards/unfinished-requests.js";

/** A connection that remembers whether it is read. */
function sender(): { readonly sender: Sender; readonly isHeld: () => boolean } {
  let isHeld = false;
  const connection = { hold: () => void (isHeld = true), release: () => void (isHeld = false) };
  return { sender: new Sender(connection), isHeld: () => isHeld };
}

test("a connection is read again when what it had sent turned out to be complete", () => {
  const limits = { totalBytes: 50_000, freeBytes: 20_000, connectionBytes: 1_000_000 };
  const unfinished = new UnfinishedRequests({ ...limits, patienceMs: 20_000, quietMs: 1_000 });
  const refuse = (): void => assert.fail("nothing is refused");
  const slow = sender();
  const slowRequest = unfinished.add(slow.sender, refuse);
  slowRequest.grow(40_000);
  const other = sender();
  const request = unfinished.add(other.sender, refuse);
  request.grow(10_000);
  assert.deepEqual([slow.isHeld(), other.isHeld()], [false, true]);
  request.finish();
  assert.deepEqual([slow.isHeld(), other.isHeld()], [false, false]);
  slowRequest.finish();
});
