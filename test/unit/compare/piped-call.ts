/** Calls as the observer process reads them. */
import assert from "node:assert/strict";
import { criMethods } from "../../../src/client/cri-messages.js";
import type { PipedCall } from "../../../src/compare/relay/call-pipe.js";

/** A call as it comes through the pipe. */
export function piped(
  rpc: string,
  request: object,
  response: object,
  given: Partial<PipedCall> = {},
): PipedCall {
  const method = criMethods().get(rpc);
  assert.ok(method);
  return {
    path: method.path,
    requests: [{ bytes: method.requestSerialize(request), compressed: false }],
    responses: [{ bytes: method.responseSerialize(response), compressed: false }],
    isTruncated: false,
    status: { code: 0, message: "OK" },
    end: "answered",
    startedMs: 100,
    endedMs: 112.345678,
    unobserved: { dropped: 0, givenUp: 0 },
    ...given,
  };
}
