import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { exampleConflist } from "../../../src/network/example/example-conflist.js";
import {
  parseSetupReport,
  renderFirstScreen,
  type FirstScreen,
} from "../../../src/shim/serve/first-screen.js";
import { notReached, pendingReach, reachOf } from "../../../src/domain/reach.js";
import { fakeReach } from "../../fakes/reach.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const run = promisify(execFile);

const screen: FirstScreen = {
  version: "1.2.3",
  facts: undefined,
  engineEndpoint: "unix:///var/run/docker.sock",
  reach: fakeReach(true),
  isInContainer: false,
  network: { name: "cni", reason: "--network-plugin=cni", problem: undefined },
  example: undefined,
  offer: undefined,
  pauseImage: "pause:1",
  stateDirectory: "/var/lib/dockershim",
  socket: "unix:///var/run/dockershim.sock",
  streaming: "http://127.0.0.1:41234",
  cadvisor: "",
  cadvisorProblem: undefined,
  metrics: "",
  setup: undefined,
};
const facts = nodeFacts({ dockerRootDir: "/var/lib/docker" });
const outOfReach = reachOf("auto", {
  ...fakeReach(true).jobs,
  files: notReached("files", "x"),
  hostPaths: notReached("hostPaths", "x"),
  processes: pendingReach("processes", "x"),
});
const setup = {
  ...{ installed: [], engineStartedBy: "setup", keepsRunning: true, undo: [] },
  playCommand: ["node", "/my place/main.js", "play"],
  playManifest: "/it's/pod.yaml",
};

describe("renderFirstScreen()", () => {
  test("says nothing of what is not there", () => {
    const text = renderFirstScreen(screen);
    assert.doesNotMatch(text, /lacks|^ {2}reach|not ready|CNI|cAdvisor|metrics/m);
  });

  const rows: readonly (readonly [what: string, Partial<FirstScreen>, shown: RegExp])[] = [
    [
      'what "docker run" lacks in a container',
      { facts, isInContainer: true, reach: outOfReach },
      /lacks -v \/var\/lib\/docker:\/var\/lib\/docker -v \/var\/lib\/dockershim:\/var\/lib\/dockershim:rshared$/m,
    ],
    [
      "the reach of the engine's host, once an engine answers",
      { facts },
      /^ {2}reach +files, processes, cgroups, network namespaces, host paths$/m,
    ],
    [
      "the jobs out of reach",
      { facts, reach: fakeReach(false) },
      /^ {2}reach +no job proven; out of reach: files, .*, host paths \(docs\/run\/remote.md\)$/m,
    ],
    ["the network plugin and its reason", {}, /^ {2}network plugin +cni \(--network-plugin=cni\)$/m],
    [
      "why pods get no network",
      { network: { ...screen.network, problem: "no networks" } },
      /--network-plugin=cni\)\n +not ready: no networks\n/,
    ],
    [
      "where cAdvisor finds names, and what the kubelet lacks",
      { cadvisor: "unix:///run/x.sock", cadvisorProblem: "it lacks x" },
      /^ {2}cAdvisor +unix:\/\/\/run\/x\.sock\n +it lacks x$/m,
    ],
    ["where metrics are", { metrics: "http://127.0.0.1:9" }, /^ {2}metrics +http:\/\/127\.0\.0\.1:9$/m],
    ["the outcome of the example", { example: "wrote /x" }, /^ {2}CNI example +wrote \/x$/m],
    [
      "the package of missing plugins, without lines that write an example",
      { offer: { path: "/x/y.conflist", list: { problem: "CNI plugins [bridge]: not installed" } } },
      /^(?![^]*(?:mkdir|--write-example))[^]*CNI plugins \[bridge\]: not installed\n.*containernetworking-plugins/,
    ],
    [
      "the line that runs a first pod, for a shell",
      { setup },
      /^ {2}node '\/my place\/main\.js' play --wait '\/it'\\''s\/pod\.yaml'$/m,
    ],
    [
      "the socket in that line, unless it is the default",
      { setup, socket: "unix:///tmp/a b.sock" },
      /^ {2}node '\/my place\/main\.js' play --wait --endpoint 'unix:\/\/\/tmp\/a b\.sock' '\/it'\\''s\/pod\.yaml'$/m,
    ],
  ];
  for (const [what, changes, shown] of rows) {
    test(`shows ${what}`, () => {
      assert.match(renderFirstScreen({ ...screen, ...changes }), shown);
    });
  }

  test("names flags of docker run only in a container on the engine's host that lacks some", () => {
    const remote = { ...outOfReach, mode: "remote" as const };
    for (const changes of [
      { isInContainer: true },
      { reach: outOfReach },
      { isInContainer: true, reach: remote },
    ])
      assert.doesNotMatch(renderFirstScreen({ ...screen, facts, ...changes }), /lacks/);
  });

  for (const name of ["net.d", "it's a $(directory)"]) {
    test(`offers lines that write the whole list from a shell into the directory ${JSON.stringify(name)}`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, name, "10-dockershim.conflist");
      const list = exampleConflist({ podCidrs: ["10.5.0.0/16", "fd00:5::/64"] });
      const text = renderFirstScreen({ ...screen, offer: { path, list: { text: list } } });
      assert.match(text, /--write-example-cni-config/);
      // From the first line that a shell is to run up to its last mark.
      await run("sh", ["-c", /^mkdir [^]*?^END$/m.exec(text)?.[0] ?? assert.fail(text)]);
      assert.deepEqual(JSON.parse(await readFile(path, "utf8")), JSON.parse(list));
    });
  }
});

test("parseSetupReport() takes other text for no report, and leaves out values of the wrong type", () => {
  for (const text of [undefined, "", "{", "null", "7"]) assert.equal(parseSetupReport(text), undefined);
  const report = parseSetupReport('{"installed":["a",1],"undo":"x","keepsRunning":false}');
  assert.deepEqual(report, {
    ...{ installed: ["a"], engineStartedBy: "other", keepsRunning: false },
    ...{ undo: [], playCommand: [], playManifest: "" },
  });
});
