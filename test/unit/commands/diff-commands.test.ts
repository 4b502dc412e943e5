import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./command-line.js";

test("diff takes two endpoints and its flags, and its exit code is that of the action", async () => {
  const { exitCode, diffed } = await run("diff /run/a.sock unix:///run/b.sock --pod shop/web --all -o json");
  assert.equal(exitCode, 2);
  assert.deepEqual(diffed, {
    endpoints: ["/run/a.sock", "unix:///run/b.sock"],
    pod: { namespace: "shop", name: "web" },
    all: true,
    format: "json",
  });
  assert.deepEqual((await run("diff /run/a.sock /run/b.sock")).diffed, {
    endpoints: ["/run/a.sock", "/run/b.sock"],
    all: false,
    format: "page",
  });
});

for (const [line, message] of [
  ["diff", /needs the endpoints of two CRI servers/],
  ["diff /run/a.sock", /needs the endpoints of two CRI servers/],
  ["diff /run/a.sock /run/b.sock /run/c.sock", /needs the endpoints of two CRI servers/],
  ["diff /a /b --pod web", /flag "--pod": "web": must be NAMESPACE\/NAME/],
  ["diff /a /b --pod a/b/c", /must be NAMESPACE\/NAME/],
  ["diff /a /b --output yaml", /page, json/],
  ["diff /a /b --no-such-flag", /no-such-flag/],
  ["--v=4 diff /a /b", /diff/],
] as const) {
  test(`"${line}" is an error of one line`, async () => {
    const { exitCode, err, diffed } = await run(line);
    assert.equal(exitCode, 1);
    assert.match(err, message);
    assert.equal(err.trim().split("\n").length, 1);
    assert.equal(diffed, undefined);
  });
}
