/** Logs of every kind of log driver, against a real engine: what the container wrote is what stands in the file. */
import { fakeReach } from "../fakes/reach.js";
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { messageOf } from "../../src/lib/errors.js";
import { ContainerLogWriters } from "../../src/shim/logs/container-log-writers.js";
import { LogRecords } from "../../src/shim/logs/log-record.js";
import { recordingLog } from "../fakes/recording-log.js";
import { until } from "../support/wait.js";
import { anySignal } from "../support/engine-contract.js";
import { engineOfSuite, reasonToSkip } from "./engine-support.js";

const long = "0123456789abcdef".repeat(2_100); // More than two pieces of 16 KiB.
const script = [
  "echo one",
  "printf 'two\\n\\nthree\\n'",
  "echo error >&2",
  `x=0123456789abcdef; i=0; while [ $i -lt 2100 ]; do printf $x; i=$((i+1)); done; echo`,
  `i=0; while [ $i -lt 1024 ]; do printf $x; i=$((i+1)); done; echo`,
  "printf 'b\\001\\000\\377\\376\\303\\n'",
  "sleep 0.1",
  "printf unterminated",
].join("\n");
/** A character of two bytes, of which Docker's first piece has one. */
const cutCharacter = "head -c 16383 /dev/zero | tr '\\0' c; printf '\\303\\251\\n'";
const stdout = Buffer.concat([
  Buffer.from(`${"c".repeat(16_383)}\u00e9\none\ntwo\n\nthree\n${long}\n${long.slice(0, 16_384)}\nb\x01\x00`),
  Buffer.from([0xff, 0xfe, 0xc3, 0x0a]),
  Buffer.from("unterminated"),
]);

interface Case {
  readonly name: string;
  readonly driver: string;
  readonly local: boolean;
  readonly tty?: boolean;
  /** What Docker itself makes of the output; `expectedOld` of Docker 20.10, where that differs. */
  readonly expected: Buffer;
  readonly expectedOld?: Buffer;
}

/** json-file is text: bytes of a piece that are no UTF-8 are replaced when the engine writes them. */
const asText = Buffer.from(stdout.toString("utf8").replace("\u00e9", "\ufffd\ufffd"));

/** Docker 20.10 writes entries without text to the journal, and does not read them back: `docker logs` lacks them, too. */
const withoutEmptyEntries = Buffer.from(
  stdout.toString("latin1").replace("two\n\n", "two\n").replace("\nb\x01", "b\x01"),
  "latin1",
);

const cases: readonly Case[] = [
  { name: "json-file, from its file", driver: "json-file", local: true, expected: asText },
  { name: "json-file, from the logs API", driver: "json-file", local: false, expected: asText },
  { name: "local", driver: "local", local: true, expected: stdout },
  {
    ...{ name: "journald", driver: "journald", local: true, expected: stdout },
    expectedOld: withoutEmptyEntries,
  },
  { name: "none, attached", driver: "none", local: true, expected: stdout },
];

describe("logs of a container", { skip: await reasonToSkip() }, () => {
  const engine = engineOfSuite();
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), "dockershim-logs-"));
  });
  after(async () => {
    await rm(directory, { recursive: true });
  });

  const run = async ({
    driver,
    local,
    tty = false,
  }: Pick<Case, "driver" | "local" | "tty">): Promise<{
    pieces: Map<string, Buffer>;
    lines: string[];
  }> => {
    const root = await mkdtemp(join(directory, "d-"));
    const log = recordingLog();
    const open = async (): Promise<ContainerLogWriters> =>
      new ContainerLogWriters({
        ...{
          engine: engine.engine,
          host: () => ({ reach: fakeReach(local) }),
          log,
          format: "cri",
          adopted: "keep",
        },
        records: await LogRecords.open(join(root, "logs"), log, join(root, "quarantine")),
      });
    await using container = await engine.container({
      // docs/run/logs.md: with a terminal the logs API has no frames.
      Cmd: ["sh", "-c", tty ? script : `${cutCharacter}\n${script}`],
      Tty: tty,
      HostConfig: { NetworkMode: "none", LogConfig: { Type: driver, Config: {} } },
    });
    const inspect = async () => {
      const snapshot = await engine.engine.inspectContainer(container.id, anySignal());
      assert.ok(snapshot);
      return snapshot;
    };
    const path = join(root, "pod", "main", "0.log");
    const writers = await open();
    try {
      assert.equal(await writers.created(container.id, { directory: join(root, "pod"), path }), true);
      await writers.beforeStart(await inspect(), anySignal());
      await engine.engine.startContainer(container.id, anySignal());
      await until("the container to end", async () => {
        const snapshot = await inspect();
        await writers.observe(snapshot);
        return snapshot.state.running ? undefined : true;
      });
    } finally {
      await writers.stop();
    }
    assert.deepEqual(log.lines, []);
    return parse(await readFile(path));
  };

  /** Why the engine cannot log with that driver here, or false. */
  const missing = async (driver: string, { tty }: { readonly tty: boolean }): Promise<string | false> => {
    if (tty && driver === "local" && engine.facts.apiMinor < 45)
      return "Docker before API 1.45 loses the end of long lines with this driver, and without frames it is unknown where";
    if (driver !== "journald") return false;
    await using container = await engine.container({
      Cmd: ["true"],
      HostConfig: { NetworkMode: "none", LogConfig: { Type: driver, Config: {} } },
    });
    try {
      await engine.engine.startContainer(container.id, anySignal());
      return false;
    } catch (error) {
      return `NO JOURNAL FOR THIS TEST, /run/systemd/journal/socket of the engine's host: ${messageOf(error)}`;
    }
  };

  for (const { name, driver, local, expected, expectedOld } of cases) {
    test(`${name}: every byte that the driver keeps`, async (context) => {
      // Journald runs on few hosts, and an engine may be built without it: the reason names which.
      const reason = await missing(driver, { tty: false });
      if (reason !== false) {
        context.skip(reason);
        return;
      }
      const { pieces } = await run({ driver, local });
      const wanted = engine.facts.apiMinor < 42 ? (expectedOld ?? expected) : expected;
      assert.equal(pieces.get("stdout")?.toString("latin1"), wanted.toString("latin1"));
      assert.equal(pieces.get("stderr")?.toString(), "error\n");
    });
  }

  for (const { name, driver, local } of cases) {
    test(`${name}, with a terminal: one stream, with its carriage returns`, async (context) => {
      const reason = await missing(driver, { tty: true });
      if (reason !== false) {
        context.skip(reason);
        return;
      }
      const { pieces, lines } = await run({ driver, local, tty: true });
      const text = pieces.get("stdout")?.toString("latin1") ?? "";
      assert.equal(pieces.get("stderr"), undefined);
      assert.match(text, /^one\r\ntwo\r\n\r\nthree\r\nerror\r\n/);
      assert.ok(text.includes(`${long}\r\n`));
      // Exactly one piece of Docker's: what follows it is the end of the line alone.
      assert.ok(text.includes(`\n${long.slice(0, 16_384)}\r\nb`));
      assert.match(text, /unterminated\n?$/);
      for (const line of lines) assert.match(line, /^\d{4}-\d\d-\d\dT\S+Z std(out|err) [FP] /s);
    });
  }
});

/** The output of each stream, put together from the lines. */
function parse(log: Buffer): { pieces: Map<string, Buffer>; lines: string[] } {
  const pieces = new Map<string, Buffer>();
  const lines = log.toString("latin1").split("\n");
  assert.equal(lines.pop(), "", "the log ends with a newline");
  for (const line of lines) {
    const [, time, stream, tag, text] = /^(\S+) (\S+) (\S) (.*)$/s.exec(line) ?? [];
    assert.ok(time !== undefined && stream !== undefined && text !== undefined, line);
    const piece = Buffer.from(text + (tag === "F" ? "\n" : ""), "latin1");
    pieces.set(stream, Buffer.concat([pieces.get(stream) ?? Buffer.alloc(0), piece]));
  }
  return { pieces, lines };
}
