/** What the docs say of commands, their flags and exit codes is what the program takes and gives. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { exitCodes } from "../../../src/main/exit-codes.js";
import { run } from "../main/command-line.js";

/** Rows of the tables whose header begins with `first`; cells without the marks of Markdown but backticks. */
function rowsOf(page: string, first: string): readonly (readonly string[])[] {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), "utf8");
  const rows: (readonly string[])[] = [];
  let isIn = false;
  for (const line of text.split("\n")) {
    const cells = line.split(/(?<!\\)\|/).slice(1, -1);
    if (!line.startsWith("|")) isIn = false;
    else if (cells[0]?.trim() === first) isIn = true;
    else if (isIn && !line.startsWith("| ---"))
      rows.push(
        cells.map((cell) =>
          cell
            .trim()
            .replaceAll("\\|", "|")
            .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"),
        ),
      );
  }
  assert.ok(rows.length > 0, page);
  return rows;
}

const codeIn = (cell: string): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text);

async function helpOf(command: string): Promise<string> {
  const { out, exitCode } = await run(`${command} --help`);
  assert.equal(exitCode, 0, command);
  return out;
}

/** `-f` and `--follow` of each flag. */
async function flagsOf(command: string): Promise<readonly (readonly string[])[]> {
  const options = (await helpOf(command)).split("\n").filter((line) => /^ {2}-/.test(line));
  return options.map((line) => {
    const [, first = "", second] = /^ {2}(-[^ ,]+)(?:, (-[^ ,]+))?/.exec(line) ?? [];
    return second === undefined ? [first] : [first, second];
  });
}

describe("what users of kubectl, podman and docker type", () => {
  for (const page of ["play/pod.md", "play/play.md"])
    for (const [kubectl = "", , , here = ""] of rowsOf(page, "kubectl"))
      test(`${kubectl} is ${here}`, async () => {
        for (const line of codeIn(here)) {
          const [, words = ""] = /(?:^|\| )dockershim (.*)$/.exec(line) ?? assert.fail(line);
          const { err, acted } = await run(words);
          assert.deepEqual([err, Object.keys(acted).length], ["", 1], line);
        }
      });
});

test("the page of pod names all flags of its commands, and no other", async () => {
  const page = readFileSync(new URL("../../../docs/play/pod.md", import.meta.url), "utf8");
  const logs = codeIn(
    page.slice(page.indexOf("## Logs"), page.indexOf("## Completions")).replaceAll("\n", " "),
  );
  for (const [command = "", cell = ""] of rowsOf("play/pod.md", "command")) {
    const [verb = ""] = codeIn(command);
    const named = [...codeIn(cell), ...(verb === "logs" ? logs : []), "-n", "--endpoint", "-h"];
    const flags = await flagsOf(`pod ${verb}`);
    for (const flag of flags)
      assert.ok(
        flag.some((name) => named.includes(name)),
        `${verb}: ${flag.join()}`,
      );
    for (const name of codeIn(cell)) assert.ok(flags.flat().includes(name), `${verb} ${name}`);
  }
});

test("the page of play names all of its flags, and no other", async () => {
  const named = rowsOf("play/play.md", "flag").flatMap(([cell = ""]) =>
    codeIn(cell).map((name) => name.replace(/\[?=.*$/, "")),
  );
  const flags = await flagsOf("play");
  for (const flag of flags)
    if (!flag.includes("-h"))
      assert.ok(
        flag.some((name) => named.includes(name)),
        flag.join(),
      );
  for (const name of named) assert.ok(flags.flat().includes(name), name);
});

describe("exit codes", () => {
  const plain = (text = ""): string => text.replaceAll("`", "");
  const documented = new Map<string, readonly string[]>();
  for (const page of ["run/operate.md", "migrate/migrating.md"])
    for (const [commands = "", ...cells] of rowsOf(page, "command"))
      // The other tables of these pages have another number of columns.
      if (cells.length === 2) for (const name of codeIn(commands)) documented.set(name, cells.map(plain));

  for (const [command, { 0: success, 1: one, 2: two, others }] of Object.entries(exitCodes))
    test(`of ${command} are those of the docs and of its help`, async () => {
      const more = others ?? (one === undefined ? (two ?? "–") : `1: ${one}`);
      assert.deepEqual(documented.get(command), [success, more]);
      assert.match(await helpOf(command), new RegExp(`\nExit codes:\n {2}0 {2}${success.slice(0, 20)}`));
    });

  test("are there for each command of the help", async () => {
    const commandsIn = (help: string): readonly string[] => {
      const [, list = ""] = help.split("\nExit codes:")[0]?.split("\nCommands:\n") ?? [];
      return [...list.matchAll(/^ {2}(\S+)/gm)].map(([, name = ""]) => name);
    };
    for (const name of commandsIn(await helpOf(""))) {
      const below = commandsIn(await helpOf(name));
      for (const each of below) assert.ok(`${name} ${each}` in exitCodes, `${name} ${each}`);
      if (below.length === 0) assert.ok(name in exitCodes, name);
    }
  });
});
