import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runWhy, type WhyOptions } from "../../../src/history/cli/why-command.js";
import { type CallRecord, encodeRecord, type HistoryRecord } from "../../../src/history/history-record.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const begin = Date.UTC(2026, 0, 2, 12, 0, 0);
/** Of a tenant that would like to write to the terminal, or into the page. */
const hostile = '</title><script>"\u001B[31m\u009B31m\u202E&';

function call(pod: string, podUid: string, at: number, more: Partial<CallRecord> = {}): HistoryRecord {
  const subject = { pod, podUid, sandboxId: "5a".repeat(32), containerName: hostile };
  const spans = [
    { what: `inspect container "${"5a".repeat(32)}"`, kind: "engine", at: 0, ms: 1 },
    { what: 'CNI plugin "bridge" DEL', kind: "plugin", at: 1, ms: 30_000, error: hostile },
  ] as const;
  return {
    ...{ kind: "call", at: begin + at, rpc: "StopPodSandbox", ms: 30_001, code: "UNKNOWN", error: hostile },
    ...{ subject, spans, ...more },
  };
}

const records: readonly HistoryRecord[] = [
  call("default/web", "uid-1", 0),
  call("default/web", "old\u001B[1m", 0),
  call("default/web", "uid-2", 60_000),
  call("default/web", "uid-2", 120_000),
  { kind: "lost", at: begin + 1, count: 9 },
  { kind: "lost", at: begin + 70_000, count: 4 },
  call("other/web", "uid-3", 0),
  call("jobs/backup-7f9c", "uid-4", 0),
  // The clock was set back by a day before the last one.
  call("jobs/clock", "uid-5", 0),
  call("jobs/clock", "uid-6", -24 * 3600_000),
  // A damaged disk.
  call("jobs/backup-7f9c", "uid-4", 1e300),
];

async function why(
  wanted: string,
  more: Partial<WhyOptions> = {},
): Promise<{ readonly exitCode: number; readonly out: string; readonly err: string }> {
  await using directory = await temporaryDirectory();
  const history = join(directory.path, "history");
  await mkdir(history);
  await writeFile(join(history, "v1-00000001.jsonl"), Buffer.concat(records.map(encodeRecord)));
  await writeFile(join(history, "v2-00000001.jsonl"), "of a later release");
  let [out, err] = ["", ""];
  const flags = [{ name: "state-dir", text: directory.path }];
  const exitCode = await runWhy(
    { wanted, form: "text", flags, programName: "dockershim", ...more },
    {
      environment: {},
      readFile: () => Promise.reject(Object.assign(new Error("none"), { code: "ENOENT" })),
      isSocket: () => Promise.resolve(false),
      writeOut: (text) => (out += text),
      writeError: (text) => (err += text),
    },
    begin + 180_000,
  );
  return { exitCode, out, err };
}

describe("why", () => {
  test("says the cause first, of the latest pod of a name, and which files it could not read", async () => {
    const { exitCode, out, err } = await why("default/web");
    const [first, ...lines] = out.split("\n");
    assert.equal(exitCode, 0);
    assert.match(first ?? "", /^default\/web: DEL of bridge hung 30 s, retried once: /);
    assert.match(
      lines.join("\n"),
      /\n12:02:00 {7}30 s {2}StopPodSandbox of .*\n.* engine: .*\n.* plugin: CNI plugin "bridge" DEL/,
    );
    assert.equal(lines.at(-2), "earlier pods of this name: uid old\\u{1b}[1m, uid uid-1");
    const [notRead, lost] = err.split("\n");
    assert.match(notRead ?? "", /^not read, because a later release has written it: .*v2-00000001\.jsonl$/);
    assert.match(lost ?? "", /^4 records of that time could not be written/);
  });

  test("lists pods of several namespaces, with exit code 2", async () => {
    const { exitCode, out } = await why("web");
    assert.equal(exitCode, 2);
    assert.deepEqual(out.match(/uid-\d/g), ["uid-3", "uid-2", "uid-1"]);
  });

  test("finds a pod by the begin of its name, when none has the name itself", async () => {
    for (const wanted of ["backup", "jobs/back", "docker://5a5a5a"]) {
      const { out, exitCode } = await why(wanted);
      assert.match(out, wanted.startsWith("docker") ? /pods have "docker/ : /^jobs\/backup-7f9c: /);
      assert.equal(exitCode, wanted.startsWith("docker") ? 2 : 0);
    }
    const { out } = await why("jobs/");
    assert.deepEqual(out.match(/uid-\d/g), ["uid-6", "uid-5", "uid-4"]);
  });

  test("takes the pod that was written last for the latest, also when the clock was set back", async () => {
    assert.match((await why("jobs/clock")).out, /\nuid uid-6;/);
  });

  test("writes no list of pods where JSON or a picture is wanted", async () => {
    for (const form of ["json", "svg"] as const) {
      const { exitCode, out, err } = await why("web", { form });
      assert.deepEqual([exitCode, out], [2, ""]);
      assert.match(err, /^4 pods have "web"/m);
    }
  });

  test("shows ids as docker ps does", async () => {
    const { out } = await why("uid-2");
    assert.ok(out.includes('"5a5a5a5a5a5a"') && !out.includes("5a".repeat(7)), out);
  });

  test("fails for what has no record", async () => {
    await assert.rejects(why("nothing"), { kind: "notFound", message: /^no record of "nothing" in "/ });
  });

  test("lets nothing of a pod through to a terminal or a page", async () => {
    // eslint-disable-next-line no-control-regex -- what must not be there
    assert.doesNotMatch((await why("uid-2")).out, /[\u0000-\u0009\u000B-\u001F\u202E]/);
    // JSON escapes ASCII alone; U+009B begins a sequence for terminals, too.
    const json = (await why("uid-2", { form: "json" })).out;
    assert.doesNotMatch(json, /[\u007F-\u009F\u202E]/);
    assert.ok(json.includes("\\u009b") && JSON.stringify(JSON.parse(json)).includes("\u009B"));
    const { out } = await why("uid-2", { form: "svg" });
    for (const text of ["<script", "\u001B", "\u202E"]) assert.ok(!out.includes(text), text);
    assert.equal(out.match(/<title>/g)?.length, out.match(/<\/title>/g)?.length);
    assert.match(out, /<svg[^]*<\/svg>\n$/);
  });

  test("gives the same as JSON", async () => {
    const { causes, steps, podUid } = JSON.parse((await why("uid-1", { form: "json" })).out) as {
      readonly causes: readonly string[];
      readonly steps: readonly unknown[];
      readonly podUid: string;
    };
    assert.equal(podUid, "uid-1");
    assert.match(causes[0] ?? "", /^DEL of bridge hung 30 s: /);
    assert.equal(steps.length, 1);
  });
});
