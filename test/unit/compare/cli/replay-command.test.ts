import assert from "node:assert/strict";
import { test } from "node:test";
import { newReport } from "../../../../src/compare/observe-calls.js";
import { page, requireNoPods } from "../../../../src/compare/cli/replay-command.js";

const { signal } = new AbortController();

test("a server that has pods, or does not list them, is refused", async () => {
  const answering = (answer: object): { ask: () => Promise<object> } => ({
    ask: () => Promise.resolve(answer),
  });
  await requireNoPods(answering({ items: [] }), "/s", signal);
  await assert.rejects(requireNoPods(answering({ items: [{}] }), "/s", signal), {
    kind: "conflict",
    message: /it has 1 pods/,
  });
  const error = { code: 13, message: "the engine does not answer" };
  await assert.rejects(requireNoPods(answering({ error }), "/s", signal), {
    kind: "unavailable",
    message: /does not list its pods; see crictl/,
  });
});

test("the page shows nothing of a recording that a terminal would act on", () => {
  const paths = { listen: "", relay: "", primary: "" };
  const report = newReport({ paths, endpoint: "", startedAt: "" });
  const replayed = {
    played: 0,
    notPlayed: {},
    missingImages: ["\u001b[31m"],
    missingPaths: ["/\u202e"],
    imageLabels: ["\u202e"],
    left: [],
  };
  assert.ok(!/[\p{Cc}\p{Cf}]/u.test(page(report, replayed, true).replaceAll("\n", "")));
});
