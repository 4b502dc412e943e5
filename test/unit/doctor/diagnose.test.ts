import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { DoctorFacts } from "../../../src/doctor/facts.js";
import { checks, diagnose } from "../../../src/doctor/judge/diagnose.js";
import { renderReport } from "../../../src/doctor/cli/doctor-command.js";
import { breakages } from "../../support/doctor-breakages.js";
import {
  healthy,
  withEngine,
  withFileSystem,
  withHost,
  withNetwork,
  withServer,
} from "../../support/doctor-facts.js";
import { fakeReach } from "../../fakes/reach.js";

const problem = { problem: "EACCES", timedOut: false };

describe("a broken node: doctor names the cause and what to type", () => {
  for (const { name, facts, check, severity } of breakages)
    test(name, () => {
      const { findings, exitCode } = diagnose(facts, "1.2.3");
      assert.deepEqual(
        findings.map((one) => [one.check, one.severity]),
        [[check, severity]],
      );
      const [found] = findings;
      assert.ok(found !== undefined && found.what !== "" && found.meaning !== "" && found.remedy !== "");
      assert.equal(exitCode, severity === "error" ? 1 : 0);
    });
});

test("a healthy node: one line", () => {
  const report = diagnose(healthy, "1.2.3");
  const line = `Healthy: ${checks.length} checks found nothing. Docker Engine 28.5.2, API 1.51.\n`;
  assert.equal(renderReport(report), line);
  assert.equal(report.exitCode, 0);
});

test("a node with nothing but notes is healthy", () => {
  const nft = withEngine({ info: { ...healthy.engine.facts.info, firewallBackend: "nftables" } });
  const page = renderReport(diagnose(nft, "1.2.3"));
  assert.match(
    page,
    /^note {5}the engine writes its rules with nftables .*\n[\s\S]*\n\nHealthy: 1 note; \d+ checks\. /,
  );
});

test("the page: the worst first, what it means and what to type below it, counts at the end", () => {
  const facts = {
    ...withFileSystem({ availableBytes: 0 }),
    server: withServer({ quarantine: ["a"] }).server,
  };
  const page = renderReport(diagnose(facts, "1.2.3"));
  assert.match(
    page,
    /^error {4}the disk is full: 0 MiB .*\/var\/lib\/dockershim .*, \/var\/lib\/docker .*\n {9}pods /,
  );
  assert.match(page, /\n {9}→ docker system df; .*\n\nwarning {2}.*quarantine/);
  assert.match(page, /\n\n1 error, 1 warning; \d+ checks\. Docker Engine 28\.5\.2, API 1\.51\.\n$/);
});

test("a cause comes before what it causes", () => {
  const ended = withServer({ runs: false, socket: "socket", listener: "none", runtimes: [] });
  const { findings } = diagnose(
    {
      ...withFileSystem({ readOnly: true }),
      server: ended.server,
      engine: { state: "fails", kind: "unavailable", problem: "no such socket" },
      migration: {
        seen: {
          ...healthy.migration.seen,
          daemonConfig: { path: "/etc/docker/daemon.json", values: {}, problem: "Unexpected token" },
        },
      },
    },
    "",
  );
  const ids = findings.map(({ check }) => check);
  assert.deepEqual(ids, ["read-only", "daemon-config-broken", "engine", "socket"]);
});

describe("the network that no plugin makes: what to type", () => {
  const none = "no valid networks found in /etc/cni/net.d: /etc/cni/net.d/1.conflist: ";
  const cases: readonly (readonly [string, DoctorFacts, RegExp])[] = [
    [
      "plugins of another processor",
      withNetwork({
        network: undefined,
        problem: `${none}run "x": neither a program for this processor nor a script`,
      }),
      /findmnt -T \/opt\/cni\/bin must not say noexec$/,
    ],
    [
      "a version that no plugin has",
      withNetwork({ network: undefined, problem: `${none}plugin x does not support config version "2.0.0"` }),
      /^a lower "cniVersion"/,
    ],
    [
      "no configuration",
      withNetwork({ network: undefined, problem: "no networks found", configurations: [] }),
      /^install a cluster network/,
    ],
  ];
  for (const [name, facts, remedy] of cases)
    test(name, () => {
      assert.match(diagnose(facts, "").findings[0]?.remedy ?? "", remedy);
    });
});

test("a mount that is read-only, of a file system that is not so elsewhere", () => {
  const [first, last] = healthy.places;
  const places = [first, { ...last, reading: { seen: { ...last.reading.seen, readOnly: true } } }];
  assert.match(
    diagnose({ ...healthy, places }, "").findings[0]?.what ?? "",
    /^the file system is read-only at \/var\/lib\/docker \(images and containers\)$/,
  );
});

test("a clock that is wrong by an hour: both times are said", () => {
  const passed = { atMs: healthy.atMs + 3_600_000, proof: "the last change of x" };
  assert.match(
    diagnose(withHost({ passed }), "").findings[0]?.what ?? "",
    /says 2026-11-27T12:00:00Z, and the last change of x is of 2026-11-27T13:00:00Z$/,
  );
});

test("names that others chose write nothing to a terminal", () => {
  const hostile = "a\u001B]0;x\u0007\u009B31m\u202E\nerror    all is lost";
  const report = diagnose(withServer({ quarantine: [hostile] }), "1.2.3");
  // eslint-disable-next-line no-control-regex -- what must not be there
  assert.doesNotMatch(renderReport(report), /[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u202E]|^error/m);
});

describe("parts that are named", () => {
  test("only their checks are made", () => {
    const facts = {
      ...withFileSystem({ availableBytes: 0 }),
      server: withServer({ quarantine: ["a"] }).server,
    };
    assert.deepEqual(
      diagnose(facts, "", ["server"]).findings.map(({ check }) => check),
      ["quarantine"],
    );
  });

  test("without an engine its absence is said, whatever was asked", () => {
    const facts: DoctorFacts = { ...healthy, engine: { state: "asleep" } };
    const { findings, exitCode } = diagnose(facts, "", ["ulimits"]);
    assert.deepEqual([findings.map(({ check }) => check), exitCode], [["engine"], 1]);
  });

  test("reach and ulimits print what was found", () => {
    const { details } = diagnose(withEngine({ reach: fakeReach(false) }), "", ["reach", "ulimits"]);
    assert.match(details[0] ?? "", /^files {15}out of reach: the engine is elsewhere$/);
    assert.equal(details.at(-1), "Open files, as the engine gives them: 65536 soft, 524288 hard.");
    const none = diagnose(withEngine({ openFiles: undefined }), "", ["ulimits"]);
    assert.match(none.details[0] ?? "", /^Open files: not known/);
  });
});

test("what could not be read is said, and is no error of the node", () => {
  const facts: DoctorFacts = {
    ...healthy,
    host: problem,
    network: problem,
    orphans: problem,
    server: problem,
  };
  const { findings, exitCode } = diagnose(facts, "");
  assert.deepEqual([new Set(findings.map(({ check }) => check)), exitCode], [new Set(["not-seen"]), 0]);
  assert.match(findings[0]?.what ?? "", /could not be read: EACCES$/);
});

describe("what is no finding", () => {
  const nofile = { Name: "nofile", Soft: 65_536, Hard: 524_288 };
  const low = withEngine({ openFiles: { soft: 1024, hard: 4096 } });
  const docker0 = withNetwork({
    plugin: "no-op",
    network: undefined,
    problem: undefined,
    configurations: [],
  });
  const cases: readonly (readonly [string, DoctorFacts])[] = [
    [
      "a low limit that --default-ulimits replaces",
      { ...low, settings: { ...healthy.settings, defaultUlimits: [nofile] } },
    ],
    [
      "a firewall that drops where Docker's bridge is the network",
      { ...docker0, firewall: problem, host: withHost({ sysctls: {} }).host },
    ],
    ["a pause image that is absent and built in", withEngine({ hasPauseImage: false })],
    [
      "a kernel with room for more, and limits that none of it reaches",
      withHost({
        limits: [
          { name: "threads", used: 1, limit: 32_768 },
          { name: "files", used: 0, limit: 2 ** 63 },
        ],
      }),
    ],
    [
      "no packets between containers of the engine's bridge, where pods have another one",
      {
        ...healthy,
        migration: {
          seen: {
            ...healthy.migration.seen,
            daemonConfig: { path: "/etc/docker/daemon.json", values: { icc: false }, problem: undefined },
          },
        },
      },
    ],
    ["a file system without inodes", withFileSystem({ inodes: 0, freeInodes: 0 })],
    [
      "AppArmor that the engine uses",
      {
        ...withEngine({
          info: {
            ...healthy.engine.facts.info,
            security: { ...healthy.engine.facts.info.security, apparmor: true },
          },
        }),
        host: withHost({ apparmor: true }).host,
      },
    ],
    [
      "a bridge of the present network in its range",
      withNetwork({ ranges: [{ cidr: "10.244.1.0/24", interfaceName: "cni0" }] }),
    ],
    [
      "another bridge of containers elsewhere",
      withNetwork({
        bridges: [{ name: "br-0123456789ab", ports: 0 }],
        ranges: [{ cidr: "172.18.0.0/16", interfaceName: "br-0123456789ab" }],
      }),
    ],
  ];
  for (const [name, facts] of cases)
    test(name, () => {
      assert.deepEqual(diagnose(facts, "").findings, []);
    });
});

test("the ids of the checks are their own", () => {
  const ids = checks.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
});
