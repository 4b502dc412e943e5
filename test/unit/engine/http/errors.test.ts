import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { notHttpCode } from "../../../../src/shim/engine/http/answer-parser.js";
import { parseNameConflict, refusal, unreachable } from "../../../../src/shim/engine/http/errors.js";
import { errorTexts } from "../full-answers.js";

const id = "3f2a".repeat(16);

describe("parseNameConflict()", () => {
  for (const [text, conflicting] of [
    [`Conflict. The container name "/k8s_a_b_c_0" is already in use by container "${id}". You have to`, id],
    [`Conflict. The name "/x" is already in use by container ${id}. You have to delete that container.`, id],
    [`Error response from daemon: Conflict. The name "/x" is already in use by container "${id}".`, id],
    [`Conflict. The container name "/x" is already in use by something`, undefined],
    ["You cannot remove a running container", undefined],
  ] as const) {
    test(text.slice(0, 60), () => {
      assert.equal(parseNameConflict(text), conflicting);
    });
  }
});

describe("refusal()", () => {
  const body = (message: string): Buffer => Buffer.from(JSON.stringify({ message }));

  for (const [kind, texts] of Object.entries(errorTexts.engine))
    for (const text of texts.map((each) => each.replaceAll("$ID", id)))
      test(`${text} is ${kind}, in the engine's words`, () => {
        const [status, message] = [Number(text.slice(0, 3)), text.slice(4)];
        const error = refusal(status, body(message));
        assert.deepEqual([error.kind, error.message, error.fields["status"]], [kind, message, status]);
      });

  test("a name conflict has the conflicting container's id", () => {
    const text = `Conflict. The container name "/x" is already in use by container "${id}".`;
    const error = refusal(409, body(text));
    assert.deepEqual([error.kind, error.fields["conflictingId"]], ["conflict", id]);
  });

  for (const [message, missing] of [
    ["No such container: abc", "container"],
    ["No such image: abc:latest", "image"],
    ["no such image: nosuch:1: No such image: nosuch:1", "image"],
    ["No such exec instance: abc", "exec"],
    ["network abc not found", "network"],
    ["Could not find the file /x in container abc", undefined],
  ] as const) {
    test(`"${message}" says what is missing: ${missing}`, () => {
      assert.equal(refusal(404, body(message)).fields["missing"], missing);
    });
  }

  test("what is not Docker's form is passed on, empty bodies named by their status, long texts cut", () => {
    assert.equal(refusal(502, Buffer.from("<h1>Bad Gateway</h1>\n")).message, "<h1>Bad Gateway</h1>");
    assert.equal(refusal(500, Buffer.from("null")).message, "null");
    assert.equal(refusal(500, Buffer.alloc(0)).message, "the engine answered with HTTP status 500");
    assert.equal(refusal(500, body("x".repeat(50_000))).message.length, 4097);
  });
});

describe("unreachable()", () => {
  for (const [code, reason] of [
    ["ENOENT", "no such socket"],
    ["ECONNREFUSED", "connection refused"],
    ["EACCES", "permission denied"],
    ["ECONNRESET", "connection closed without an answer"],
    [notHttpCode, "the answer is not HTTP"],
    ["EWHATEVER", "as Node words it"],
  ] as const) {
    test(`${code} reads "${reason}"`, () => {
      const error = unreachable("unix:///run/x.sock", Object.assign(new Error("as Node words it"), { code }));
      assert.equal(error.kind, "unavailable");
      assert.equal(error.message, `cannot reach the Docker Engine at unix:///run/x.sock: ${reason}`);
    });
  }
});
