import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { CheckpointTask } from "../../../../checkpoints/cli/checkpoint-options.js";
import { runCheckpoint } from "../../../../checkpoints/cli/checkpoint-command.js";
import { oneMapping, vectors } from "../golden.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const id = (start: string): string => start.padEnd(64, "0");
const [a, b] = [id("a"), id("b")];
const good = vectors.filter(({ data }) => !JSON.stringify(data).match(/null|\{\}|\[\]/));
assert.ok(good.length > 3);
const [ofDockershim, ofCriDockerd] = [oneMapping.dockershim.file, oneMapping.criDockerd.file];
const wrongChecksum = ofDockershim.replace(/"checksum":\d+/, '"checksum":1');

/** A directory as dockershim's, with these files. */
async function checkpoints(files: Readonly<Record<string, string>>, name = "dockershim") {
  const root = await temporaryDirectory();
  const directory = join(root.path, name, "sandbox");
  await mkdir(directory, { recursive: true });
  for (const [file, text] of Object.entries(files))
    await writeFile(join(directory, file), text, { mode: 0o600 });
  return { root: root.path, directory, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

async function run(
  task: CheckpointTask,
  directories: string | readonly string[],
  format: "page" | "json" = "page",
): Promise<{ code: number; out: string }> {
  let out = "";
  const io = { environment: {}, writeOut: (text: string) => (out += text), usualDirectories: [] };
  const code = await runCheckpoint({ task, directories: [directories].flat(), format }, io);
  return { code, out };
}

/** Names and contents of all files below a directory. */
async function contents(directory: string): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(directory)).sort())
    found[name] = await readFile(join(directory, name), "utf8");
  return found;
}

const ls = { kind: "ls" } as const;
const verify = { kind: "verify" } as const;
const convert = { kind: "convert", to: "cri-dockerd", anyway: false } as const;
const repair = { kind: "repair", dryRun: false, anyway: false } as const;

describe("dockershim checkpoint ls", () => {
  test("lists pod, program, host ports and directory of each file, and those that are corrupt", async () => {
    const writing = { ".123": "a file that is being written" };
    await using place = await checkpoints({
      [a]: ofDockershim,
      [b]: ofCriDockerd,
      [id("c")]: "{",
      ...writing,
    });
    const { code, out } = await run(ls, place.directory);
    assert.equal(code, 0);
    assert.deepEqual(out.split("\n").slice(0, 3), [
      place.directory,
      "  a00000000000  default/web-0  (dockershim)  8080->80/tcp",
      "  b00000000000  default/web-0  (cri-dockerd)  8080->80/tcp",
    ]);
    assert.match(out, /\n {2}c00000000000 {2}corrupt: not JSON: .*\n2 checkpoints, 1 corrupt files\n$/);
  });

  test("prints no character that a terminal acts on", async () => {
    const file = { ...(JSON.parse(ofDockershim) as object), name: "a\u001b[2J\u202e" };
    await using place = await checkpoints({ [a]: JSON.stringify(file) });
    assert.match((await run(ls, place.directory)).out, /default\/a\\u\{1b\}\[2J\\u\{202e\}/);
  });

  test("gives everything as JSON", async () => {
    await using place = await checkpoints({ [a]: ofCriDockerd });
    const listed = {
      ...{ id: a, directory: place.directory, path: join(place.directory, a), flavour: "criDockerd" },
      ...{ namespace: "default", name: "web-0", hostNetwork: false },
      portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }],
    };
    const { out } = await run(ls, place.directory, "json");
    assert.deepEqual(JSON.parse(out), { checkpoints: [listed], corrupt: [] });
  });

  test("names a missing directory, a state directory and a file with the next step", async () => {
    await using place = await checkpoints({ file: "" });
    for (const [directories, message] of [
      [join(place.root, "absent"), /absent".*no such file.*--directory/],
      [join(place.directory, "file"), /not a directory.*--directory/],
      [join(place.directory, ".."), /state directory.*--directory .*sandbox/],
      [[], /name a directory/],
    ] as const)
      await assert.rejects(run(ls, directories), { kind: "precondition", message });
  });
});

describe("dockershim checkpoint verify", () => {
  test("exits 0 when all files are right", async () => {
    const files = good.map(({ criDockerd }, at) => [id(`a${at}-`), criDockerd.file]);
    await using place = await checkpoints(Object.fromEntries(files) as Record<string, string>);
    const { code, out } = await run(verify, place.directory);
    assert.equal(code, 0);
    assert.match(out, new RegExp(`${good.length} right, 0 corrupt`));
  });

  const unreadable = /checksum 1 is not that of the content\n.*can be read: default\/web-0/;
  for (const [name, text, reason] of [
    ["an empty file", "", /empty/],
    ["a wrong checksum", wrongChecksum, unreadable],
    ["a file that is too large", " ".repeat(4 * 1024 * 1024 + 1), /larger than/],
  ] as const)
    test(`exits 2 for ${name}, with path and reason, and changes nothing`, async () => {
      await using place = await checkpoints({ [a]: text });
      const { code, out } = await run(verify, place.directory);
      assert.equal(code, 2);
      assert.match(out, reason);
      assert.ok(out.includes(join(place.directory, a)));
      assert.deepEqual((await readdir(place.root, { recursive: true })).length, 3);
    });

  test("exits 2 for a symbolic link, which it does not follow, a directory and a name that is no id", async () => {
    await using place = await checkpoints({ "not an id": ofDockershim });
    await writeFile(join(place.root, "target"), ofDockershim);
    await symlink(join(place.root, "target"), join(place.directory, a));
    await mkdir(join(place.directory, b));
    const { code, out } = await run(verify, place.directory);
    assert.equal(code, 2);
    for (const text of ["a symbolic link", "not a regular file", "cannot be the id", "0 right, 3 corrupt"])
      assert.ok(out.includes(text), out);
  });
});

describe("dockershim checkpoint convert", () => {
  for (const [to, from] of [
    ["cri-dockerd", "dockershim"],
    ["dockershim", "criDockerd"],
  ] as const)
    test(`writes files for ${to} to the byte, and a second run writes none`, async () => {
      const target = to === "dockershim" ? "dockershim" : "criDockerd";
      const files = good.map((vector, at) => [id(`a${at}-`), vector[from].file]);
      await using place = await checkpoints(Object.fromEntries(files) as Record<string, string>);
      assert.equal((await run({ ...convert, to }, place.directory)).code, 0);
      for (const [at, vector] of good.entries()) {
        const path = join(place.directory, id(`a${at}-`));
        assert.equal(await readFile(path, "utf8"), vector[target].file, vector.name);
        assert.equal((await stat(path)).mode & 0o777, 0o600);
      }
      const { out } = await run({ ...convert, to }, place.directory);
      assert.match(out, new RegExp(`^0 written for ${to}, ${good.length} were right already`));
    });

  test("writes into another directory and leaves the files alone", async () => {
    await using place = await checkpoints({ [a]: ofDockershim, [b]: ofCriDockerd });
    const output = join(place.root, "cri-dockerd", "sandbox");
    await run({ ...convert, output }, place.directory);
    assert.deepEqual(await contents(output), { [a]: ofCriDockerd, [b]: ofCriDockerd });
    assert.deepEqual(await contents(place.directory), { [a]: ofDockershim, [b]: ofCriDockerd });
  });

  test("changes nothing when one file is corrupt, or one content cannot be written", async () => {
    const before = { [a]: ofDockershim, [b]: wrongChecksum };
    await using place = await checkpoints(before);
    const output = join(place.root, "new", "sandbox");
    const message = /b0.*nothing was changed.*repair/;
    for (const task of [convert, { ...convert, output }])
      await assert.rejects(run(task, place.directory), { kind: "precondition", message });
    assert.deepEqual(await contents(place.directory), before);
    assert.deepEqual(await readdir(place.root), ["dockershim"]);
    await using whole = await checkpoints({ [a]: ofDockershim });
    const blocked = join(place.directory, a, "sandbox");
    await assert.rejects(run({ ...convert, output: blocked }, whole.directory), /not a directory/);
    assert.deepEqual(await contents(whole.directory), { [a]: ofDockershim });
  });

  test("overwrites no file that says something else", async () => {
    const other = good.find(({ dockershim }) => !dockershim.file.includes("8080"))?.dockershim.file ?? "";
    await using place = await checkpoints({ [a]: ofDockershim, [b]: ofDockershim });
    await using there = await checkpoints({ [b]: other });
    const message = /b0.*says something else/;
    const task = { ...convert, output: there.directory };
    await assert.rejects(run(task, place.directory), { kind: "conflict", message });
    assert.deepEqual(await contents(there.directory), { [b]: other });
  });

  test("refuses while a program serves from the directory, unless it is told to do it anyway", async () => {
    await using place = await checkpoints({ [a]: ofDockershim });
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => server.listen(join(place.directory, "..", "instance.sock"), done));
    try {
      const message = /dockershim uses it.*--anyway/;
      for (const task of [convert, repair])
        await assert.rejects(run(task, place.directory), { kind: "conflict", message });
      assert.deepEqual(await contents(place.directory), { [a]: ofDockershim });
      assert.equal((await run({ ...convert, anyway: true }, place.directory)).code, 0);
      assert.deepEqual(await contents(place.directory), { [a]: ofCriDockerd });
    } finally {
      server.close();
    }
  });
});

describe("dockershim checkpoint repair", () => {
  test("writes a file with a wrong checksum again and keeps the bad one", async () => {
    await using place = await checkpoints({ [a]: wrongChecksum, [b]: ofCriDockerd });
    const { code, out } = await run(repair, place.directory);
    assert.equal(code, 0, out);
    assert.deepEqual(await contents(place.directory), { [a]: ofDockershim, [b]: ofCriDockerd });
    const quarantine = join(place.directory, "..", "quarantine");
    assert.deepEqual(Object.values(await contents(quarantine)), [wrongChecksum]);
    assert.equal((await stat(quarantine)).mode & 0o777, 0o700);
    assert.match(out, /from the content of the file: default\/web-0/);
    assert.match(out, /the bad file: .*\/quarantine\/sandbox-a0/);
  });

  test("gives cri-dockerd's checksum in a directory of that name, and where it is told to", async () => {
    for (const [name, task] of [
      ["cri-dockerd", repair],
      ["dockershim", { ...repair, to: "cri-dockerd" }],
    ] as const) {
      await using place = await checkpoints({ [a]: wrongChecksum }, name);
      await run(task, place.directory);
      assert.deepEqual(await contents(place.directory), { [a]: ofCriDockerd });
    }
  });

  for (const [name, task, text, printed] of [
    ["with --dry-run", { ...repair, dryRun: true }, wrongChecksum, /would be written .*\n.*m 1/],
    ["leaves what nothing is known of", repair, "{", /left .*\n.*not JSON.*\n.*--docker-endpoint/],
  ] as const)
    test(`${name}, changes nothing, and exits 2`, async () => {
      await using place = await checkpoints({ [a]: text });
      const { code, out } = await run(task, place.directory);
      assert.equal(code, 2);
      assert.match(out, printed);
      assert.deepEqual(await contents(place.directory), { [a]: text });
      assert.deepEqual(await readdir(join(place.directory, "..")), ["sandbox"]);
    });

  test("names an engine that does not answer, and a directory without rights with the next step", async (t) => {
    await using place = await checkpoints({ [a]: "{" });
    const task = { ...repair, dockerEndpoint: `unix://${join(place.root, "docker.sock")}` };
    await assert.rejects(run(task, place.directory), /docker\.sock/);
    if (process.getuid?.() === 0) {
      t.diagnostic("root may read everything");
      return;
    }
    await chmod(place.directory, 0);
    await assert.rejects(run(repair, place.directory), /run the command as root/);
    await chmod(place.directory, 0o700);
  });
});
