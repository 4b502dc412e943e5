import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { programWords } from "../../support/program-words.js";

const [node, ...help] = programWords(["--help"]);

test("the program ends well when its output has no reader any more", async () => {
  const child = spawn(node, help);
  // Long before the program has anything to write.
  child.stdout.destroy();
  const errors = text(child.stderr);
  assert.deepEqual([await once(child, "exit"), await errors], [[0, null], ""]);
});

test("the program fails, with a line, when its output cannot be written", async () => {
  await using full = await open("/dev/full", "w");
  const child = spawn(node, help, { stdio: ["ignore", full.fd, "pipe"] });
  const errors = text(child.stderr ?? assert.fail());
  assert.deepEqual(await once(child, "exit"), [1, null]);
  assert.match(await errors, /^dockershim: write the output: ENOSPC\b.*\n$/);
});
