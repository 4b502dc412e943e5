import assert from "node:assert/strict";
import { test } from "node:test";
import { pullCredentials } from "../../../../src/play/kubelet/pull-credentials.js";
import { podWith } from "../fake-cri.js";

const { signal } = new AbortController();
const config = (auths: object) => Buffer.from(JSON.stringify(auths));
const user = (name: string) => ({ auth: Buffer.from(`${name}:secret-of-${name}`).toString("base64") });

const type = "kubernetes.io/dockerconfigjson";
const dockerConfig = (text: Buffer) => ({ type, data: { ".dockerconfigjson": text } });
const old = config({ "https://registry.example": user("old") });
const secrets = new Map<string, { type: string; data: Record<string, Buffer> }>(
  Object.entries({
    team: dockerConfig(
      config({ auths: { "*.example": user("any"), "registry.example/team": user("team") } }),
    ),
    old: { type: "kubernetes.io/dockercfg", data: { ".dockercfg": old } },
    opaque: { type: "Opaque", data: { password: Buffer.from("hush") } },
    broken: dockerConfig(Buffer.from('{"auths": hush')),
  }),
);

async function usersFor(image: string, names: readonly string[], reports: string[] = []) {
  const list = names.map((name) => `{name: ${name}}`).join(", ");
  const manifest = await podWith(`  imagePullSecrets: [${list}]\n  containers: [{name: c, image: x}]`);
  const node = { lookUp: () => Promise.resolve([{ username: "node" }]) };
  const deps = { credentials: node, report: (line: string) => reports.push(line) };
  const lookUp = pullCredentials({ ...manifest, objects: { configMaps: new Map(), secrets } }, deps);
  return (await lookUp(image, signal)).map(({ username }) => username);
}

test("pullCredentials() tries the pull secrets, longest path first, and then the node's", async () => {
  assert.deepEqual(await usersFor("registry.example/team/web:1", ["team", "old"]), [
    "team",
    "old",
    "any",
    "node",
  ]);
  assert.deepEqual(await usersFor("registry.example/web", ["old"]), ["old", "node"]);
  assert.deepEqual(await usersFor("elsewhere.test/web", ["team", "old"]), ["node"]);
});

test("pullCredentials() goes on without a secret that is missing or bad, and shows nothing of it", async () => {
  const reports: string[] = [];
  const names = ["missing", "opaque", "broken", "old"];
  assert.deepEqual(await usersFor("registry.example/web", names, reports), ["old", "node"]);
  assert.equal(reports.length, 3);
  assert.match(reports[0] ?? "", /pulling without imagePullSecret "missing": it is in none of the files/);
  assert.doesNotMatch(reports.join("\n"), /hush/);
});
