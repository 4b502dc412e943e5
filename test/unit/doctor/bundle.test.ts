import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { gunzipSync } from "node:zlib";
import { extract } from "tar-stream";
import { collect } from "../../../src/doctor/bundle/collect.js";
import { redact } from "../../../src/lib/redact.js";
import { writeBundle } from "../../../src/doctor/bundle/write-bundle.js";
import { resolveConfig } from "../../../src/shim/config/resolve.js";
import { healthy } from "../../support/doctor-facts.js";

const build = { version: "1.2.3", commit: "abc" };

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "doctor-bundle-"));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

async function gatheredIn(root: string): Promise<Parameters<typeof collect>[0]> {
  const flags = [
    { name: "state-dir", text: root },
    { name: "cni-conf-dir", text: join(root, "net.d") },
    { name: "docker-endpoint", text: "tcp://127.0.0.1:2375" },
  ];
  const resolved = await resolveConfig(flags, {}, () => Promise.reject(new Error("no file")));
  return { facts: healthy, resolved };
}

/** Planted where operators, tenants and programs leave them. */
const secret = "hunter2SECRET";
const jwt = `eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ${secret}.c2ln`;
const planted: readonly (readonly [string, string])[] = [
  ["the user of an address", `level=info msg="pull https://bob:${secret}@registry.example/x"`],
  ["a header", `Authorization: Bearer ${secret}`],
  ["a basic header", `proxy answered to Basic ${secret}==`],
  ["a flag", `dockerd --registry-password ${secret} --debug`],
  ["a flag with =", `kubelet --bootstrap-token=${secret}`],
  ["YAML", `registry:\n  password: "${secret} with blanks"\n  user: bob`],
  ["a variable", `DB_PASSWORD=${secret}`],
  ["a service account's token", `mounted ${jwt} for the pod`],
  ["a private key", `-----BEGIN RSA PRIVATE KEY-----\n${secret}\n-----END RSA PRIVATE KEY-----`],
  ["a private key that is cut off", `-----BEGIN PRIVATE KEY-----\n${secret}\n`],
  ["a line of a log", `started\n{"level":30,"msg":"x","token":"${secret}","env":["A=${secret}"]}\nended`],
  ["a log line with an address", `{"msg":"get http://u:${secret}@h/"}`],
  ["Docker's credentials", JSON.stringify({ auths: { "registry.example": { auth: secret } } })],
  ["environment of a container", JSON.stringify({ Config: { Env: [`KEY=${secret}`], Cmd: [secret] } })],
  ["annotations", JSON.stringify({ metadata: { annotations: { note: secret } } })],
  ["a kubeconfig", `users:\n- user:\n    client-key-data: ${secret}\n`],
  ["a password with @ in it", `level=info msg="pull https://bob:x@${secret}@registry.example/x"`],
  ["a header of another scheme", `Authorization: Negotiate ${secret}`],
  ["JSON in a text", `level=debug msg="{\\"auth\\":\\"a ${secret}\\",\\"x\\":1}"`],
  [
    "a request in the log of a debugging engine",
    `level=debug form-data="{\\"Env\\":[\\"GREETING=a ]${secret}\\"],\\"Image\\":\\"x\\"}"`,
  ],
  ["a query", `GET /x?access_token=${secret}&y=1`],
  ["a signed address of a layer", `Get "https://s3.example/l?X-Amz-Date=1&X-Amz-Signature=${secret}": EOF`],
  [
    "a signed address of another store",
    `Get "https://blob.example/l?se=2026&sp=r&sig=${secret}%3D&sr=b": EOF`,
  ],
  ["a short name of a password", `DB_PASS=${secret}`],
  ["a proxy without a scheme", `HTTPS_PROXY=bob:${secret}@proxy.example:3128`],
  ["a proxy without a scheme in daemon.json", `{"proxies":{"http-proxy":"bob:${secret}@proxy:3128"}}`],
  ["the user of a registry in a text", `pulling bob:${secret}@registry.example/app: denied`],
  ["a key that both ends of a tunnel have", `{"plugins":[{"type":"tunnel","psk":"${secret}"}]}`],
  ["the same in a text", `presharedKey = ${secret}`],
  ["a shorter name of a password", `MYSQL_PWD=${secret}`],
  ["a cookie", `Cookie: a=1; session=${secret}`],
];

describe("a secret leaves no node", () => {
  for (const [name, text] of planted)
    test(name, () => {
      const shown = redact(text);
      assert.ok(!shown.includes(secret), shown);
      assert.ok(shown.includes("(removed)"), shown);
    });

  // Hours with a pattern that looks at each character from each other one.
  for (const word of ["x", "token", "eyJ-", "\\\\"])
    test(`a megabyte of ${word} takes no longer than another one`, { timeout: 60_000 }, () => {
      const text = word.repeat(2 ** 20);
      assert.equal(redact(text), text);
    });

  test("what is none stays as it is", () => {
    for (const text of [
      "engine live at unix:///var/run/docker.sock\n",
      '{"level":30,"rpc":"RunPodSandbox","pod":"shop/web-0","ms":12.5}',
      "GET /x?signal=9&passed=1 compass: 5, design=new bypass: true",
      "NO_PROXY=127.0.0.1,registry.example",
      "stat-dir: /var/lib/dockershim\ncni-conf-dir: /etc/cni/net.d\n",
      "pull registry.example:5000/team/app@sha256:0123 failed: no such host",
      "image app:1.2@sha256:0123 at 16:20:01, mail a@b.example",
    ])
      assert.equal(redact(`x\n${text}`), `x\n${text}`);
  });
});

test("a bundle has state, settings, logs and versions, and no planted secret", async (t) => {
  const root = await directory(t);
  const files: Readonly<Record<string, string>> = {
    "pods/a.json": JSON.stringify({
      name: "web",
      annotations: { x: secret },
      resolvConf: "nameserver 192.0.2.1",
    }),
    "sandbox/b": `{"data":{"password":"${secret}"}}`,
    "quarantine/pod-c": `{"token": "${secret}", broken`,
    "net.d/10-etcd.conflist": JSON.stringify({ name: "n", plugins: [{ type: "x", etcd_password: secret }] }),
    "history/v1-00000002.jsonl": `{"kind":"call","rpc":"StopPodSandbox","error":"token=${secret}"}\n`,
    "server.log": planted.map(([, text]) => `${text}\n`).join(""),
    "registry.json": secret,
  };
  for (const name of ["pods", "sandbox", "quarantine", "history", "net.d"]) await mkdir(join(root, name));
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text);
  const run = (): Promise<{ exitCode: number; stdout: string; stderr: string }> =>
    Promise.resolve({ exitCode: 0, stdout: `password=${secret}\nlast line\n`, stderr: "" });
  const entries = await collect(await gatheredIn(root), { logFile: join(root, "server.log"), run }, build);

  const path = join(root, "out.tar.gz");
  await writeBundle(path, entries, new Date(healthy.atMs));
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  const texts = await textsOf(path);
  for (const [name, text] of texts) assert.ok(!text.includes(secret), `${name}: ${text}`);
  for (const name of [
    "report.json",
    "versions.json",
    "config.json",
    "state/pods/a.json",
    "state/quarantine/pod-c",
    "state/history.jsonl",
    "etc/cni/10-etcd.conflist",
  ])
    assert.ok(texts.has(`dockershim-bundle/${name}`), name);
  assert.match(texts.get("dockershim-bundle/log/dockershim.service.log") ?? "", /last line/);
  assert.match(texts.get("dockershim-bundle/state/pods/a.json") ?? "", /"web"[\s\S]*192\.0\.2\.1/);
  assert.match(texts.get("dockershim-bundle/versions.json") ?? "", /"dockershim": "1\.2\.3 \(abc\)"/);
  const refusals: readonly (readonly [string, RegExp])[] = [
    [path, /out\.tar\.gz": file already exists$/],
    [join(root, "absent", "x"), /absent\/x": no such file or directory$/],
  ];
  for (const [wanted, message] of refusals)
    await assert.rejects(writeBundle(wanted, [], new Date()), message);
  assert.equal((await textsOf(path)).size, texts.size);
});

test("a bundle has limits: large files and what no longer fits are named, of a log the end is kept", async (t) => {
  const root = await directory(t);
  await mkdir(join(root, "pods"));
  for (const name of ["1", "2", "3"])
    await writeFile(join(root, "pods", name), "x".repeat(name === "2" ? 2000 : 900));
  const key = `-----BEGIN PRIVATE KEY-----\n${`${secret}\n`.repeat(40)}-----END PRIVATE KEY-----\n`;
  await writeFile(
    join(root, "log"),
    `${"older line\n".repeat(9000)}${key}${"old line\n".repeat(30)}last line\n`,
  );
  const limits = { fileBytes: 1000, logBytes: 500, totalBytes: 100_000, files: 9 };
  const run = (): Promise<never> => Promise.reject(new Error("run journalctl: not installed"));
  const entries = await collect(await gatheredIn(root), { logFile: join(root, "log"), limits, run }, build);
  const texts = new Map(entries.map(({ name, text }) => [name, text]));
  assert.match(texts.get("log/server.log") ?? "", /\nold line\n[\s\S]*last line\n$/);
  assert.doesNotMatch(texts.get("log/server.log") ?? "", new RegExp(secret));
  assert.ok((texts.get("log/server.log") ?? "").length <= 500);
  assert.match(texts.get("log/docker.service.log") ?? "", /not installed/);
  assert.ok(texts.has("state/pods/1"));
  assert.match(texts.get("left-out.txt") ?? "", /^state\/pods\/2: larger than 1000 bytes$/m);
  assert.match(texts.get("left-out.txt") ?? "", /^state\/pods\/3: the bundle is full$/m);
});

test("a bundle does not touch a file system that does not answer", async (t) => {
  const root = await directory(t);
  await mkdir(join(root, "pods"));
  await writeFile(join(root, "pods", "a.json"), "{}");
  const { resolved } = await gatheredIn(root);
  const reading = { problem: "not finished after 5s", timedOut: true };
  const facts = { ...healthy, places: [{ path: root, holds: "records", reading }] };
  const run = (): Promise<never> => Promise.reject(new Error("run journalctl: not installed"));
  const entries = await collect({ facts, resolved }, { logFile: join(root, "log"), run }, build);
  const names = entries.map(({ name }) => name);
  assert.deepEqual([names.includes("state/pods/a.json"), names.at(-1)], [false, "left-out.txt"]);
  assert.match(entries.at(-1)?.text ?? "", /^state\/pods: the file system does not answer$/m);
});

async function textsOf(path: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  const reader = extract();
  reader.end(gunzipSync(await readFile(path)));
  for await (const entry of reader) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    texts.set(entry.header.name, Buffer.concat(chunks).toString());
  }
  return texts;
}
