import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AskedServer } from "../../../../src/compare/answers/asked-server.js";
import type { Difference } from "../../../../src/compare/answers/compare-answers.js";
import { diffPage, diffReport } from "../../../../src/compare/diff/diff-report.js";
import type { ServerKind } from "../../../../src/compare/answers/server-kind.js";

const server = (kind: ServerKind): AskedServer => ({
  ...{ socket: `/run/${kind}.sock`, kind, criVersion: "v1", runtimeName: "docker", runtimeVersion: "28.5.2" },
  ask: () => Promise.reject(new Error("not asked")),
  close: () => undefined,
});

const servers = { left: server("dockershim"), right: server("cri-dockerd") };
const asked = { questions: 9, pods: 1, containers: 2, images: 0 };

const difference = (more: Partial<Difference> = {}): Difference => ({
  ...{ rpc: "PodSandboxStatus", subject: "pod shop/web p1", field: "status.network.ip" },
  ...{ left: "10.0.0.1", right: null, ...more },
});

const intended = difference({
  ...{ rpc: "Version", subject: "server", field: "runtime_api_version", left: "1.51.0", right: "v1" },
  intended: { key: "api-version", reason: "kubelets parse it" },
});

function page(differences: readonly Difference[], all = false): string {
  return diffPage(diffReport(servers, { differences, asked }, { all }));
}

describe("diffPage()", () => {
  test("groups by RPC, then by pod, and folds what is intended", () => {
    const text = page([
      difference(),
      intended,
      intended,
      difference({ field: "status.state", left: 0, right: 1 }),
      difference({ subject: "pod shop/db p2" }),
    ]);
    assert.equal(
      text,
      `left   /run/dockershim.sock: this program, docker 28.5.2, CRI v1
right  /run/cri-dockerd.sock: cri-dockerd, docker 28.5.2, CRI v1
asked  9 questions about 1 pod, 2 containers, 0 images

PodSandboxStatus
  pod shop/web p1
    status.network.ip
      left   10.0.0.1
      right  -
    status.state
      left   0
      right  1
  pod shop/db p2
    status.network.ip
      left   10.0.0.1
      right  -

Intended differences (docs/understand/differences.md, by key):
     2  api-version: Version \`runtime_api_version\`
        kubelets parse it

3 differences, and 2 intended.
`,
    );
  });

  test("shows intended differences one by one with --all, and does not count them as differences", () => {
    const text = page([intended], true);
    assert.match(text, /^ {4}runtime_api_version {2}\(intended: api-version\)$/m);
    assert.match(text, /^No difference beside 1 intended one\.$/m);
    assert.match(page([]), /^No difference\.$/m);
  });

  test("shows nothing that a terminal would act on, and no line of more than 100 columns", () => {
    const evil = `\u001b]0;x\u0007\r\n${"long ".repeat(100)}`;
    const text = page([
      difference({ subject: `pod a/${evil}`, field: `status.labels[${evil}]`, left: evil, right: { evil } }),
      difference({ left: { code: 5, message: evil } }),
    ]);
    assert.doesNotMatch(text.replaceAll("\n", ""), /\p{Cc}/u);
    assert.match(text, /left {3}NOT_FOUND: \\u\{1b\}\]0;x\\u\{7\}/);
    for (const line of text.split("\n")) assert.ok(line.length <= 100, line);
  });
});
