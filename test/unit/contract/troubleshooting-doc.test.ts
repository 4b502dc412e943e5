/** Texts that docs/run/troubleshooting.md quotes are those of the program: people search for them. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Said by others: the kubelet, crictl, the Docker Engine, Node.js, the kernel and its loader. */
const foreign: ReadonlySet<string> = new Set([
  "validate service connection: … DeadlineExceeded",
  "port is already allocated",
  "removing log file …: no such file or directory",
  "Failed to rotate container logs",
  "failed to reopen container log",
  "cannot execute binary file: Exec format error",
  "libatomic.so.1: cannot open shared object file",
  "No such file or directory",
  "Permission denied",
]);

/** What the sources say, with a mark in the place of each value. */
function textsOfTheProgram(): string {
  const files = ["src", "checkpoints", "scripts"].flatMap((directory) =>
    readdirSync(join(root, directory), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(ts|mjs)$/.test(name))
      .map((name) => withoutComments(readFileSync(join(root, directory, name), "utf8"))),
  );
  return withoutValues(files.join("\n"))
    .replace(/["'`] \+\s*["'`]/g, "")
    .replaceAll("\\", "");
}

/** A comment says nothing to a user. */
function withoutComments(source: string): string {
  return source.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, "").replaceAll(/^\s*\/\/.*$/gm, "");
}

/** `${…}` of templates is replaced, also where it holds braces. */
function withoutValues(source: string): string {
  const [first = "", ...others] = source.split("${");
  let text = first;
  let depth = 0;
  for (const part of others) {
    depth += 1;
    let end = -1;
    for (const { 0: brace, index } of part.matchAll(/[{}]/g)) {
      depth += brace === "{" ? 1 : -1;
      end = index;
      if (depth === 0) break;
    }
    if (depth === 0) text += `\0${part.slice(end + 1)}`;
  }
  return text;
}

/**
 * The words of a quoted message between its values (a quoted name, a number, a path, an ellipsis) and between
 * its parts: each caller puts what it did in front of the reason.
 */
function fixedParts(message: string): readonly string[] {
  return message
    .split(/…|: |"[^"]*"|[=(]?--?[a-z][\w=-]*|\S*[/[]\S*|\b\d[\w.]*/)
    .map((part) => part.replace(/^[\s:;,.()]+|[\s:;,.()]+$/g, ""))
    .filter((part) => /\w\s+\w/.test(part));
}

test("every message that docs/run/troubleshooting.md quotes is one that the program can say", () => {
  const texts = textsOfTheProgram();
  const quoted = quotedIn(readFileSync(join(root, "docs/run/troubleshooting.md"), "utf8"));
  const messages = quoted.filter(
    (message) => !foreign.has(message) && !message.startsWith("crictl ") && fixedParts(message).length > 0,
  );
  assert.ok(messages.length > 30, `only ${String(messages.length)} messages were found`);
  assert.deepEqual(notSaid(messages, texts), []);
});

test("so is each reason of NetworkReady, in docs/run/networking.md and docs/run/metrics.md", () => {
  const page = readFileSync(join(root, "docs/run/networking.md"), "utf8");
  const reasons = quotedIn(/^## NetworkReady\n([\s\S]*?)^## /m.exec(page)?.[1] ?? "");
  assert.ok(reasons.length > 10, `only ${String(reasons.length)} reasons were found`);
  const metrics = readFileSync(join(root, "docs/run/metrics.md"), "utf8");
  const [, readyz = ""] = /^\[-\]NetworkReady failed: \w+: (.*)$/m.exec(metrics) ?? [];
  assert.notEqual(readyz, "");
  assert.deepEqual(notSaid([...reasons, readyz], textsOfTheProgram()), []);
});

test("the log lines of docs/run/operate.md are those of the program", () => {
  const page = readFileSync(join(root, "docs/run/operate.md"), "utf8");
  const lines = quotedIn(/^## Log lines worth an alert\n([\s\S]*?)^## /m.exec(page)?.[1] ?? "");
  assert.ok(lines.length > 8, `only ${String(lines.length)} lines were found`);
  const texts = textsOfTheProgram();
  const shown = lines.filter((line) => line !== "msg" && !texts.includes(`"${line}"`));
  assert.deepEqual(shown, []);
});

/** What the first column of tables has between backticks. */
function quotedIn(text: string): readonly string[] {
  const cells = text.split("\n").flatMap((line) => /^\| (.*?) \| /.exec(line)?.[1] ?? []);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, quoted = ""]) => quoted));
}

function notSaid(messages: readonly string[], texts: string): readonly string[] {
  return messages.flatMap((message) =>
    fixedParts(message.replaceAll("DIRECTORY", "…"))
      .filter((part) => !texts.includes(part))
      .map((part) => `${message}: nothing says ${JSON.stringify(part)}`),
  );
}
