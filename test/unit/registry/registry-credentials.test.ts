import assert from "node:assert/strict";
import { chmod, mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import {
  matchingEntries,
  normalizeRegistryKey,
  parseDockerConfig,
  parseLegacyDockerConfig,
} from "../../../src/shim/registry/docker-config.js";
import { RegistryCredentialStore } from "../../../src/shim/registry/registry-credentials.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

function auth(text: string): string {
  return Buffer.from(text).toString("base64");
}

describe("normalizeRegistryKey()", () => {
  for (const [key, normal] of [
    ["https://index.docker.io/v1/", "index.docker.io"],
    ["index.docker.io/v1/", "index.docker.io"],
    ["https://r.io/v2/", "r.io"],
    ["r.io/", "r.io"],
    ["http://r.io:5000/team/v1/x", "r.io:5000/team/v1/x"],
    ["r.io/v2/team", "r.io/team"],
    ["r.io/v20/team", "r.io/v20/team"],
    ["*.r.io", "*.r.io"],
  ] as const) {
    test(`${key} is ${normal}`, () => {
      assert.equal(normalizeRegistryKey(key), normal);
    });
  }
});

describe("matchingEntries()", () => {
  for (const [name, keys, repository, expected] of [
    ["the registry", ["r.io", "s.io"], "r.io/a/b", ["r.io"]],
    ["the longest", ["r.io", "r.io/a", "r.io/a/b", "r.io/c"], "r.io/a/b", ["r.io/a/b", "r.io/a", "r.io"]],
    ["a glob stands for one part", ["*.r.io", "*.io", "*.*.io"], "x.r.io/a", ["*.r.io", "*.*.io"]],
    ["sets", ["r[a-e]g.io", "r[x-z]g.io", "r[^x]g.io"], "reg.io/a", ["r[a-e]g.io", "r[^x]g.io"]],
    ["a question mark", ["r?g.io"], "reg.io/a", ["r?g.io"]],
    ["a broken glob matches nothing", ["r[.io", "r[z-a]g.io", "r(.io", "r+g.io"], "reg.io/a", []],
    ["ports must be the same", ["r.io:5000", "r.io"], "r.io:5000/a", ["r.io:5000"]],
    ["without a port", ["r.io:5000", "r.io"], "r.io/a", ["r.io"]],
    ["a dot is a dot", ["rxio.com"], "r.io.com/a", []],
    ["Docker Hub's own entry", ["index.docker.io", "r.io"], "docker.io/library/a", ["index.docker.io"]],
    ["an exact entry before it", ["index.docker.io", "docker.io"], "docker.io/library/a", ["docker.io"]],
    ["Docker Hub's is for its images only", ["index.docker.io"], "r.io/a", []],
  ] as const) {
    test(name, () => {
      const entries = keys.map((key) => ({ key }));
      const found = matchingEntries(entries, repository).map(({ key }) => key);
      assert.deepEqual(found, expected);
    });
  }
});

describe("parseDockerConfig()", () => {
  test("reads auth, names and passwords, tokens and helpers", () => {
    const auths = {
      "https://a.io/v1/": { auth: auth("user:pass:word"), username: "ignored", password: "ignored" },
      "b.io": { username: "u", password: "p", email: "e" },
      "c.io": { identitytoken: "t", auth: auth("<token>:") },
      "stored.io": {},
    };
    const others = {
      credHelpers: { "https://h.io": "ecr-login" },
      credsStore: "desktop",
      HttpHeaders: { A: "x" },
    };
    const config = parseDockerConfig(JSON.stringify({ auths, ...others }));
    assert.deepEqual(config.entries, [
      { key: "a.io", credentials: { username: "user", password: "pass:word" } },
      { key: "b.io", credentials: { username: "u", password: "p" } },
      { key: "c.io", credentials: { username: "<token>", password: "", identityToken: "t" } },
    ]);
    assert.deepEqual([...config.helpers], [["h.io", "ecr-login"]]);
    assert.equal(config.store, "desktop");
  });

  test("auth may lack its padding and have NULs behind the password", () => {
    const [a, b] = [{ auth: auth("u:p1").replace(/=+$/, "") }, { auth: auth("u:p\0\0") }];
    const { entries } = parseLegacyDockerConfig(JSON.stringify({ "a.io": a, "b.io": b }));
    const found = entries.map(({ credentials }) => credentials.password);
    assert.deepEqual(found, ["p1", "p"]);
  });

  for (const text of [
    '{"auths": hunter2',
    '"hunter2"',
    "[]",
    "null",
    `{"auths":{"a.io":{"auth":"${auth("hunter2")}"}}}`,
    '{"auths":{"a.io":{"auth":"%%hunter2"}}}',
  ]) {
    test(`a file such as ${text.slice(0, 25)} is bad as a whole, and not quoted`, () => {
      const isQuoted = ({ message, cause }: Error) =>
        /hunter2|aHVudGVyMg/.test(`${message} ${String(cause)}`);
      assert.throws(
        () => parseDockerConfig(text),
        (error: Error) => !isQuoted(error),
      );
    });
  }
});

describe("RegistryCredentialStore", () => {
  async function setUp() {
    const directory = await temporaryDirectory();
    const logged: string[] = [];
    const log = (...args: readonly unknown[]): void => void logged.push(JSON.stringify(args));
    const store = new RegistryCredentialStore({
      directory: join(directory.path, "own"),
      workingDirectory: join(directory.path, "cwd"),
      homeDirectory: join(directory.path, "home"),
      log: { warn: log, debug: log },
    });
    for (const name of ["own", "cwd", "home/.docker", "bin"])
      await mkdir(join(directory.path, name), { recursive: true });
    return {
      store,
      logged,
      write: async (path: string, content: string | object): Promise<string> => {
        const full = join(directory.path, path);
        await writeFile(full, typeof content === "string" ? content : JSON.stringify(content));
        return full;
      },
      users: async (reference: string) => (await store.lookUp(reference)).map(({ username }) => username),
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    };
  }

  const config = (user: string): object => ({ auths: { "r.io": { auth: auth(`${user}:p`) } } });
  const legacy = (user: string): object => ({ "r.io": { auth: auth(`${user}:p`) } });

  test("files are searched in order, config.json before .dockercfg, the first that parses wins", async () => {
    await using at = await setUp();
    const order: [string, object][] = [
      ["home/.dockercfg", legacy("7")],
      ["cwd/.dockercfg", legacy("6")],
      ["own/.dockercfg", legacy("5")],
      ["home/.docker/config.json", config("3")],
      ["cwd/config.json", config("2")],
      ["own/config.json", config("1")],
    ];
    for (const [path, content] of order) {
      await at.write(path, content);
      assert.equal((await at.users("r.io/a")).length, 1, path);
      const user = Object.values(content)[0] as unknown;
      assert.ok(JSON.stringify(user).includes(auth(`${(await at.users("r.io/a"))[0] ?? ""}:p`)), path);
    }
    // One without an entry hides those behind it.
    await at.write("own/config.json", { auths: {} });
    assert.deepEqual(await at.users("r.io/a"), []);
  });

  test("a bad file is passed over with one line that shows no secret", async () => {
    await using at = await setUp();
    await at.write("own/config.json", '{"auths":{"r.io":{"auth":"hunter2"}');
    await at.write("cwd/config.json", config("good"));
    assert.deepEqual(await at.users("r.io/a"), ["good"]);
    assert.deepEqual(await at.users("r.io/a"), ["good"]);
    assert.equal(at.logged.length, 1);
    assert.match(at.logged[0] ?? "", /own\/config\.json/);
    assert.doesNotMatch(at.logged[0] ?? "", /hunter2/);
  });

  test("a file that changes is read anew, also within the same size", async () => {
    await using at = await setUp();
    const path = await at.write("own/config.json", config("old"));
    assert.deepEqual(await at.users("r.io/a"), ["old"]);
    await at.write("own/config.json", config("new"));
    await utimes(path, 1, 1);
    assert.deepEqual(await at.users("r.io/a"), ["new"]);
  });

  test("a malformed image name has no credentials", async () => {
    await using at = await setUp();
    await at.write("own/config.json", config("x"));
    assert.deepEqual(await at.users("NOT A NAME"), []);
  });

  describe("credential helpers", () => {
    /** A helper that answers with a shell script's output; `$server` is what it was asked. */
    async function helper(
      context: TestContext,
      at: Awaited<ReturnType<typeof setUp>>,
      name: string,
      script: string,
    ): Promise<void> {
      const text = `#!/bin/sh\nread -r server || true\n${script}\n`;
      const path = await at.write(`bin/docker-credential-${name}`, text);
      await chmod(path, 0o755);
      const saved = process.env["PATH"] ?? "";
      process.env["PATH"] = `${join(path, "..")}:${saved}`;
      context.after(() => {
        process.env["PATH"] = saved;
      });
    }

    const answer = `[ "$1" = get ] && printf '{"ServerURL":"%s","Username":"u-%s","Secret":"s"}' "$server" "$server"`;

    test("a registry's helper comes before the entries of the file", async (context) => {
      await using at = await setUp();
      await helper(context, at, "test", answer);
      await at.write("own/config.json", { ...config("file"), credHelpers: { "r.io": "test" } });
      assert.deepEqual(await at.users("r.io/a"), ["u-r.io", "file"]);
      assert.deepEqual(await at.users("s.io/a"), []);
    });

    test("the store is asked for all other registries, for Docker Hub by its old address", async (context) => {
      await using at = await setUp();
      await helper(context, at, "store", answer);
      await at.write("own/config.json", { auths: { "r.io": {} }, credsStore: "store" });
      assert.deepEqual(await at.users("r.io:5000/a"), ["u-r.io:5000"]);
      assert.deepEqual(await at.users("busybox"), ["u-https://index.docker.io/v1/"]);
    });

    test("a token is an identity token", async (context) => {
      await using at = await setUp();
      await helper(context, at, "token", `printf '{"Username":"<token>","Secret":"t"}'`);
      await at.write("own/config.json", { credsStore: "token" });
      assert.deepEqual(await at.store.lookUp("r.io/a"), [{ identityToken: "t" }]);
    });

    for (const [name, script, reason] of [
      ["none", 'echo "credentials not found in native keychain"; exit 1', undefined],
      ["fails", "echo hunter2; echo hunter2 >&2; exit 7", "exit code 7"],
      ["babbles", "echo hunter2", "not JSON"],
      ["../../escape", "true", "not a helper's name"],
      ["absent", undefined, "no such program in PATH"],
    ] as const) {
      test(`one that ${name} leaves the file's entries, and its output nowhere`, async (context) => {
        await using at = await setUp();
        if (script !== undefined && !name.includes("/")) await helper(context, at, name, script);
        await at.write("own/config.json", { ...config("file"), credHelpers: { "r.io": name } });
        assert.deepEqual(await at.users("r.io/a"), ["file"]);
        assert.equal(at.logged.length, reason === undefined ? 0 : 1);
        if (reason !== undefined) assert.ok(at.logged[0]?.includes(reason), at.logged[0]);
        assert.doesNotMatch(at.logged.join(), /hunter2/);
      });
    }

    test("a caller that leaves does not wait for a helper that hangs", async (context) => {
      await using at = await setUp();
      await helper(context, at, "hangs", "exec sleep 60");
      await at.write("own/config.json", { credsStore: "hangs" });
      const caller = new AbortController();
      const pending = at.store.lookUp("r.io/a", caller.signal);
      setTimeout(() => caller.abort(), 50);
      await assert.rejects(pending, { kind: "cancelled" });
    });
  });
});
