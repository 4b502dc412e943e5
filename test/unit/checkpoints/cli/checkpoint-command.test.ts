import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { decodeCheckpoint } from "../../../../checkpoints/checkpoint.js";
import type { CheckpointTask } from "../../../../checkpoints/cli/checkpoint-options.js";
import { runCheckpoint } from "../../../../checkpoints/cli/checkpoint-command.js";
import { vectors } from "../golden.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const id = (start: string): string => start.padEnd(64, "0");
const good = vectors.filter(({ data }) => !JSON.stringify(data).match(/null|\{\}|\[\]/));
const web = vectors.find(({ name }) => name === "one tcp mapping");
assert.ok(web !== undefined && good.length > 3);
const dockershimFile = web.dockershim.file;
const criDockerdFile = web.criDockerd.file;
const wrongChecksum = dockershimFile.replace(/"checksum":\d+/, '"checksum":1');

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
  directories: readonly string[],
  format: "page" | "json" = "page",
): Promise<{ code: number; out: string }> {
  let out = "";
  const io = { environment: {}, writeOut: (text: string) => (out += text), usualDirectories: [] };
  const code = await runCheckpoint({ task, directories, format }, io);
  return { code, out };
}

/** Names and contents of all files below a directory. */
async function contents(directory: string): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(directory)).sort())
    found[name] = await readFile(join(directory, name), "utf8");
  return found;
}

const convert = { kind: "convert", to: "cri-dockerd", anyway: false } as const;
const repair = { kind: "repair", dryRun: false, anyway: false } as const;

describe("dockershim checkpoint ls", () => {
  test("lists pod, program, host ports and directory of each file, and those that are corrupt", async () => {
    await using place = await checkpoints({
      [id("a")]: dockershimFile,
      [id("b")]: criDockerdFile,
      [id("c")]: "{",
      ".123": "a file that is being written",
    });
    const { code, out } = await run({ kind: "ls" }, [place.directory]);
    assert.equal(code, 0);
    assert.deepEqual(out.split("\n").slice(0, 4), [
      place.directory,
      "  a00000000000  default/web-0  (dockershim)  8080->80/tcp",
      "  b00000000000  default/web-0  (cri-dockerd)  8080->80/tcp",
      `  c00000000000  corrupt: not JSON: ${(/not JSON: (.*)/.exec(out) ?? [])[1] ?? ""}`,
    ]);
    assert.match(out, /2 checkpoints, 1 corrupt files\n$/);
  });

  test("prints no character that a terminal acts on", async () => {
    const file = JSON.parse(dockershimFile) as object;
    await using place = await checkpoints({
      [id("a")]: JSON.stringify({ ...file, name: "a\u001b[2J\u202e" }),
    });
    const { out } = await run({ kind: "ls" }, [place.directory]);
    assert.match(out, /default\/a\\u\{1b\}\[2J\\u\{202e\}/);
  });

  test("gives everything as JSON", async () => {
    await using place = await checkpoints({ [id("a")]: criDockerdFile });
    const { out } = await run({ kind: "ls" }, [place.directory], "json");
    const path = join(place.directory, id("a"));
    assert.deepEqual(JSON.parse(out), {
      checkpoints: [
        {
          ...{ id: id("a"), directory: place.directory, path, flavour: "criDockerd" },
          ...{ namespace: "default", name: "web-0", hostNetwork: false },
          portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }],
        },
      ],
      corrupt: [],
    });
  });

  test("names a missing directory, a state directory and a file with the next step", async () => {
    await using place = await checkpoints({ file: "" });
    await assert.rejects(
      run({ kind: "ls" }, [join(place.root, "absent")]),
      /absent".*no such file.*--directory/,
    );
    await assert.rejects(
      run({ kind: "ls" }, [join(place.directory, "file")]),
      /not a directory.*--directory/,
    );
    await assert.rejects(
      run({ kind: "ls" }, [join(place.directory, "..")]),
      /state directory.*--directory .*sandbox/,
    );
    await assert.rejects(run({ kind: "ls" }, []), { kind: "precondition", message: /name a directory/ });
  });
});

describe("dockershim checkpoint verify", () => {
  test("exits 0 when all files are right", async () => {
    await using place = await checkpoints(
      Object.fromEntries(good.map(({ criDockerd }, at) => [id(`a${at}-`), criDockerd.file])),
    );
    const { code, out } = await run({ kind: "verify" }, [place.directory]);
    assert.equal(code, 0);
    assert.match(out, new RegExp(`${good.length} right, 0 corrupt`));
  });

  const bad: readonly (readonly [string, string, RegExp])[] = [
    ["an empty file", "", /empty/],
    [
      "a wrong checksum",
      wrongChecksum,
      /checksum 1 is not that of the content\n.*can be read: default\/web-0/,
    ],
    ["a file that is too large", " ".repeat(4 * 1024 * 1024 + 1), /larger than/],
  ];
  for (const [name, text, reason] of bad) {
    test(`exits 2 for ${name}, with path and reason, and changes nothing`, async () => {
      await using place = await checkpoints({ [id("a")]: text });
      const { code, out } = await run({ kind: "verify" }, [place.directory]);
      assert.equal(code, 2);
      assert.match(out, reason);
      assert.ok(out.includes(join(place.directory, id("a"))));
      assert.deepEqual(await readdir(place.root), ["dockershim"]);
      assert.deepEqual(await readdir(join(place.root, "dockershim")), ["sandbox"]);
    });
  }

  test("exits 2 for a symbolic link, which it does not follow, a directory and a name that is no id", async () => {
    await using place = await checkpoints({ "not an id": dockershimFile });
    await writeFile(join(place.root, "target"), dockershimFile);
    await symlink(join(place.root, "target"), join(place.directory, id("a")));
    await mkdir(join(place.directory, id("b")));
    const { code, out } = await run({ kind: "verify" }, [place.directory]);
    assert.equal(code, 2);
    assert.match(out, /a symbolic link/);
    assert.match(out, /not a regular file/);
    assert.match(out, /cannot be the id of a sandbox/);
    assert.match(out, /0 right, 3 corrupt/);
  });
});

describe("dockershim checkpoint convert", () => {
  for (const [to, from] of [
    ["cri-dockerd", "dockershim"],
    ["dockershim", "criDockerd"],
  ] as const) {
    test(`writes files for ${to} to the byte, and a second run writes none`, async () => {
      const target = to === "dockershim" ? "dockershim" : "criDockerd";
      await using place = await checkpoints(
        Object.fromEntries(good.map((vector, at) => [id(`a${at}-`), vector[from].file])),
      );
      const { code } = await run({ ...convert, to }, [place.directory]);
      assert.equal(code, 0);
      for (const [at, vector] of good.entries()) {
        const path = join(place.directory, id(`a${at}-`));
        assert.equal(await readFile(path, "utf8"), vector[target].file, vector.name);
        assert.equal((await stat(path)).mode & 0o777, 0o600);
      }
      const again = await run({ ...convert, to }, [place.directory]);
      assert.match(again.out, new RegExp(`^0 written for ${to}, ${good.length} were right already`));
    });
  }

  test("writes into another directory and leaves the files alone", async () => {
    await using place = await checkpoints({ [id("a")]: dockershimFile, [id("b")]: criDockerdFile });
    const before = await contents(place.directory);
    const output = join(place.root, "cri-dockerd", "sandbox");
    await run({ ...convert, output }, [place.directory]);
    assert.deepEqual(await contents(output), { [id("a")]: criDockerdFile, [id("b")]: criDockerdFile });
    assert.deepEqual(await contents(place.directory), before);
  });

  test("changes nothing when one file is corrupt", async () => {
    await using place = await checkpoints({ [id("a")]: dockershimFile, [id("b")]: wrongChecksum });
    const before = await contents(place.directory);
    const output = join(place.root, "new", "sandbox");
    for (const task of [convert, { ...convert, output }]) {
      await assert.rejects(run(task, [place.directory]), {
        kind: "precondition",
        message: /b0.*nothing was changed.*repair/,
      });
    }
    assert.deepEqual(await contents(place.directory), before);
    assert.deepEqual(await readdir(place.root), ["dockershim"]);
  });

  test("overwrites no file that says something else", async () => {
    const other = good.find(({ dockershim }) => !dockershim.file.includes("8080"))?.dockershim.file ?? "";
    await using place = await checkpoints({ [id("a")]: dockershimFile, [id("b")]: dockershimFile });
    await using there = await checkpoints({ [id("b")]: other });
    await assert.rejects(run({ ...convert, output: there.directory }, [place.directory]), {
      kind: "conflict",
      message: /b0.*says something else/,
    });
    assert.deepEqual(await contents(there.directory), { [id("b")]: other });
  });

  test("changes nothing when one content cannot be written", async (t) => {
    if (process.getuid?.() === 0) t.diagnostic("root can write everywhere: the directory is a file instead");
    await using place = await checkpoints({ [id("a")]: dockershimFile });
    await using blocked = await checkpoints({ [id("a")]: dockershimFile });
    const output = join(blocked.directory, id("a"), "sandbox");
    await assert.rejects(run({ ...convert, output }, [place.directory]), /not a directory/);
    assert.deepEqual(await contents(place.directory), { [id("a")]: dockershimFile });
  });

  test("refuses while a program serves from the directory, unless it is told to do it anyway", async () => {
    await using place = await checkpoints({ [id("a")]: dockershimFile });
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => server.listen(join(place.directory, "..", "instance.sock"), done));
    try {
      await assert.rejects(run(convert, [place.directory]), {
        kind: "conflict",
        message: /dockershim uses it.*--anyway/,
      });
      await assert.rejects(run(repair, [place.directory]), { kind: "conflict" });
      assert.deepEqual(await contents(place.directory), { [id("a")]: dockershimFile });
      assert.equal((await run({ ...convert, anyway: true }, [place.directory])).code, 0);
      assert.deepEqual(await contents(place.directory), { [id("a")]: criDockerdFile });
    } finally {
      server.close();
    }
  });
});

describe("dockershim checkpoint repair", () => {
  test("writes a file with a wrong checksum again and keeps the bad one", async () => {
    await using place = await checkpoints({ [id("a")]: wrongChecksum, [id("b")]: criDockerdFile });
    const { code, out } = await run(repair, [place.directory]);
    assert.equal(code, 0, out);
    assert.deepEqual(await contents(place.directory), {
      [id("a")]: dockershimFile,
      [id("b")]: criDockerdFile,
    });
    const quarantine = join(place.directory, "..", "quarantine");
    assert.deepEqual(Object.values(await contents(quarantine)), [wrongChecksum]);
    assert.equal((await stat(quarantine)).mode & 0o777, 0o700);
    assert.match(out, /from the content of the file: default\/web-0/);
    assert.match(out, /the bad file: .*\/quarantine\/sandbox-a0/);
  });

  test("gives cri-dockerd's checksum in a directory of that name, and where it is told to", async () => {
    await using place = await checkpoints({ [id("a")]: wrongChecksum }, "cri-dockerd");
    await run(repair, [place.directory]);
    assert.deepEqual(await contents(place.directory), { [id("a")]: criDockerdFile });
    await using other = await checkpoints({ [id("a")]: wrongChecksum });
    await run({ ...repair, to: "cri-dockerd" }, [other.directory]);
    assert.deepEqual(await contents(other.directory), { [id("a")]: criDockerdFile });
  });

  test("with --dry-run prints the same and changes nothing", async () => {
    await using place = await checkpoints({ [id("a")]: wrongChecksum });
    const { code, out } = await run({ ...repair, dryRun: true }, [place.directory]);
    assert.equal(code, 2);
    assert.match(out, /would be written .*\n.*checksum 1 is not/);
    assert.deepEqual(await contents(place.directory), { [id("a")]: wrongChecksum });
    assert.deepEqual(await readdir(join(place.directory, "..")), ["sandbox"]);
  });

  test("leaves what nothing is known of, says so, and exits 2", async () => {
    await using place = await checkpoints({ [id("a")]: "{" });
    const { code, out } = await run(repair, [place.directory]);
    assert.equal(code, 2);
    assert.match(out, /left .*\n.*not JSON.*\n.*--docker-endpoint/);
    assert.deepEqual(await contents(place.directory), { [id("a")]: "{" });
  });

  test("names an engine that does not answer", async () => {
    await using place = await checkpoints({ [id("a")]: "{" });
    const task = { ...repair, dockerEndpoint: `unix://${join(place.root, "docker.sock")}` };
    await assert.rejects(run(task, [place.directory]), /docker\.sock/);
  });

  test(
    "a directory without rights is named with the next step",
    { skip: process.getuid?.() === 0 && "root may" },
    async () => {
      await using place = await checkpoints({ [id("a")]: wrongChecksum });
      await chmod(place.directory, 0);
      await assert.rejects(run(repair, [place.directory]), /run the command as root/);
      await chmod(place.directory, 0o700);
    },
  );

  test("the repaired file of each flavour can be read again", async () => {
    await using place = await checkpoints({ [id("a")]: wrongChecksum });
    await run(repair, [place.directory]);
    const bytes = await readFile(join(place.directory, id("a")));
    const found = decodeCheckpoint(bytes);
    assert.equal(found.kind === "checkpoint" && found.flavour, "dockershim");
  });
});
