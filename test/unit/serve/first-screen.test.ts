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

/** From the line of the offer that a shell is to run up to its last mark. */
function shellText(text: string): string {
  return /^mkdir [^]*?^END$/m.exec(text)?.[0] ?? assert.fail(text);
}

describe("renderFirstScreen()", () => {
  test('names what "docker run" lacks in a container', () => {
    const facts = nodeFacts({ dockerRootDir: "/var/lib/docker" });
    const inContainer = { ...screen, facts, isInContainer: true };
    assert.doesNotMatch(renderFirstScreen(inContainer), /lacks/);
    const { jobs } = fakeReach(true);
    const reach = reachOf("auto", {
      ...jobs,
      files: notReached("files", "x"),
      hostPaths: notReached("hostPaths", "x"),
      processes: pendingReach("processes", "x"),
    });
    assert.match(
      renderFirstScreen({ ...inContainer, reach }),
      /lacks -v \/var\/lib\/docker:\/var\/lib\/docker -v \/var\/lib\/dockershim:\/var\/lib\/dockershim:rshared$/m,
    );
    assert.doesNotMatch(renderFirstScreen({ ...screen, facts, reach }), /lacks/);
    const remote = { ...inContainer, reach: { ...reach, mode: "remote" as const } };
    assert.doesNotMatch(renderFirstScreen(remote), /lacks/);
  });
  test("has one line about the reach of the engine's host, once an engine answers", () => {
    assert.doesNotMatch(renderFirstScreen(screen), /^ {2}reach/m);
    const text = renderFirstScreen({ ...screen, facts: nodeFacts() });
    assert.match(text, /^ {2}reach +files, processes, cgroups, network namespaces, host paths$/m);
    const elsewhere = renderFirstScreen({ ...screen, facts: nodeFacts(), reach: fakeReach(false) });
    assert.match(
      elsewhere,
      /^ {2}reach +no job proven; out of reach: files, .*, host paths \(docs\/run\/remote.md\)$/m,
    );
  });

  test("names the network plugin and its reason, without an offer when there is a configuration", () => {
    const text = renderFirstScreen(screen);
    assert.match(text, /^ {2}network plugin +cni \(--network-plugin=cni\)$/m);
    assert.doesNotMatch(text, /not ready|CNI/);
  });

  test("shows below the plugin why pods get no network", () => {
    const text = renderFirstScreen({ ...screen, network: { ...screen.network, problem: "no networks" } });
    assert.match(text, /--network-plugin=cni\)\n +not ready: no networks\n/);
  });

  test("says where cAdvisor finds names, and what the kubelet lacks", () => {
    assert.doesNotMatch(renderFirstScreen(screen), /cAdvisor/);
    const text = renderFirstScreen({
      ...screen,
      cadvisor: "unix:///run/x.sock",
      cadvisorProblem: "it lacks x",
    });
    assert.match(text, /^ {2}cAdvisor +unix:\/\/\/run\/x\.sock\n +it lacks x$/m);
  });

  test("says where metrics are, when they are anywhere", () => {
    assert.doesNotMatch(renderFirstScreen(screen), /metrics/);
    const text = renderFirstScreen({ ...screen, metrics: "http://127.0.0.1:9090" });
    assert.match(text, /^ {2}metrics +http:\/\/127\.0\.0\.1:9090$/m);
  });

  test("shows the outcome of the example configuration", () => {
    const text = renderFirstScreen({ ...screen, example: "wrote /etc/cni/net.d/10-dockershim.conflist" });
    assert.match(text, /^ {2}CNI example +wrote \/etc\/cni\/net\.d\/10-dockershim\.conflist$/m);
  });

  for (const name of ["net.d", "it's a $(directory)"]) {
    test(`offers lines that write the whole list from a shell into the directory ${JSON.stringify(name)}`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, name, "10-dockershim.conflist");
      const list = exampleConflist({ podCidrs: ["10.5.0.0/16", "fd00:5::/64"] });
      const text = renderFirstScreen({ ...screen, offer: { path, list: { text: list } } });
      assert.match(text, /--write-example-cni-config/);
      await run("sh", ["-c", shellText(text)]);
      assert.deepEqual(JSON.parse(await readFile(path, "utf8")), JSON.parse(list));
    });
  }

  test("names the package when the example needs plugins that are not installed", () => {
    const offer = { path: "/x/y.conflist", list: { problem: "CNI plugins [bridge]: not installed" } };
    const text = renderFirstScreen({ ...screen, offer });
    assert.match(text, /CNI plugins \[bridge\]: not installed\n.*containernetworking-plugins/);
    assert.doesNotMatch(text, /mkdir|--write-example/);
  });
});

describe("the line that runs a first pod", () => {
  const setup = {
    ...{ installed: [], engineStartedBy: "setup", keepsRunning: true, undo: [] },
    playCommand: ["node", "/my place/main.js", "play"],
    playManifest: "/it's/pod.yaml",
  };
  const rows: readonly (readonly [string, string])[] = [
    ["unix:///var/run/dockershim.sock", `  node '/my place/main.js' play --wait '/it'\\''s/pod.yaml'`],
    [
      "unix:///tmp/a b.sock",
      `  node '/my place/main.js' play --wait --endpoint 'unix:///tmp/a b.sock' '/it'\\''s/pod.yaml'`,
    ],
  ];
  for (const [socket, line] of rows) {
    test(`is for a shell, and names ${socket} unless that is the default`, () => {
      assert.ok(
        renderFirstScreen({ ...screen, socket, setup })
          .split("\n")
          .includes(line),
      );
    });
  }
});

describe("parseSetupReport()", () => {
  for (const text of [undefined, "", "{", "null", "7"]) {
    test(`takes ${text === undefined ? "nothing" : JSON.stringify(text)} for no report`, () => {
      assert.equal(parseSetupReport(text), undefined);
    });
  }

  test("leaves out values of the wrong type", () => {
    const report = parseSetupReport('{"installed":["a",1],"undo":"x","keepsRunning":false}');
    assert.deepEqual(report, {
      installed: ["a"],
      engineStartedBy: "other",
      keepsRunning: false,
      undo: [],
      playCommand: [],
      playManifest: "",
    });
  });
});
