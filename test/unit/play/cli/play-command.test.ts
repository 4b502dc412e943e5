import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { runPlay } from "../../../../src/play/cli/play-command.js";
import { sameFiles } from "../../../../src/play/cli/play-context.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: x:1}]}\n";

async function run(files: Readonly<Record<string, string>>, names: readonly string[], stdin?: string) {
  await using temporary = await temporaryDirectory();
  const directory = temporary.path;
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  let errors = "";
  const exitCode = await runPlay(
    {
      files: names.map((name) => (name === "-" ? name : join(directory, name))),
      endpoint: `unix://${join(directory, "none.sock")}`,
      follow: false,
      down: false,
    },
    {
      stdout: { write: () => assert.fail("nothing may be printed") },
      stderr: { write: (text) => (errors += text) },
      signal: new AbortController().signal,
      ...(stdin === undefined ? {} : { stdin: linesOf(stdin) }),
    },
  );
  assert.equal(exitCode, 1);
  return errors;
}

async function* linesOf(text: string): AsyncGenerator<string> {
  await Promise.resolve();
  yield text;
}

const cases: readonly (readonly [string, Readonly<Record<string, string>>, readonly string[], RegExp])[] = [
  ["no file", {}, [], /name at least one manifest file/],
  ["a file that is missing", {}, ["a.yaml"], /^dockershim play: read ".*a\.yaml": there is no such file\n$/],
  ["a file named twice", { "a.yaml": pod }, ["a.yaml", "a.yaml"], /named twice/],
  ["standard input that is not there", {}, ["-"], /there is no standard input/],
  [
    "fields that are not honoured, of all files at once",
    {
      "a.yaml": pod.replace("x:1", "x:1, lifecycles: {}"),
      "b.yaml": pod.replace("web", "w2").replace("x:1", "x:1, startupProbes: {}"),
    },
    ["a.yaml", "b.yaml"],
    /2 problems[^]*lifecycles[^]*startupProbes/,
  ],
  ["a server that is not there", { "a.yaml": pod }, ["a.yaml"], /no CRI server answers there/],
];
for (const [what, files, names, expected] of cases)
  test(`runPlay() reports ${what}, and answers 1`, async () => {
    assert.match(await run(files, names), expected);
  });

test("a command line for the same objects has the directory's flag, the namespace and the socket", () => {
  const options = { files: ["a", "b.yaml"], endpoint: "/run/dockershim.sock", follow: false, down: false };
  assert.equal(sameFiles(options), "a b.yaml");
  const others = { recursive: true, namespace: "shop", endpoint: "/x.sock" };
  assert.equal(sameFiles({ ...options, ...others }), "-R -n shop a b.yaml --endpoint=/x.sock");
});

test("runPlay() shows no text that a terminal would act on", async () => {
  const errors = await run({}, ["\u001b]0;title\u0007.yaml"]);
  assert.match(errors, /\\u\{1b\}\]0;title/);
  assert.ok(!errors.includes("\u001b"));
});

test("runPlay() reads manifests from standard input", async () => {
  const text = await run({}, ["-"], "kind: Pod\n");
  assert.match(text, /standard input, line 1: kind: kind and apiVersion must be given/);
});
