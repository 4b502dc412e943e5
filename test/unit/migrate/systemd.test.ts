import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readService } from "../../../src/migrate/kubelet/read-kubelet.js";
import { NodeFiles } from "../../../src/migrate/files/node-files.js";
import { listValues, loadUnit } from "../../../src/migrate/systemd/load-unit.js";
import { parseUnitText } from "../../../src/migrate/systemd/unit-file.js";
import { splitWords } from "../../../src/migrate/systemd/words.js";
import { makeNode, type NodeTree } from "./nodes.js";

test("parseUnitText() joins continued lines, also over a comment, and reports what systemd ignores", () => {
  const text = "A=1\n[Service]\nExecStart=/bin/a \\\n# why\n  --b \\\n\t--c\nrubbish\nX=1\n";
  const { entries, problems } = parseUnitText("/u", text);
  const texts = entries.map(({ key, value, line }) => `${line} ${key}=${value}`);
  assert.deepEqual(texts, ["3 ExecStart=/bin/a --b --c", "8 X=1"]);
  const places = problems.map(({ place }) => place);
  assert.deepEqual(places, ["/u:1", "/u:7"]);
});

test("splitWords() keeps quotes and escapes as systemd does", () => {
  for (const [text, words] of [
    ["a  b\tc", ["a", "b", "c"]],
    [`"a b" 'c "d"'`, ["a b", 'c "d"']],
    [`--x="a b"c`, ["--x=a bc"]],
    ["a\\sb \\x", ["a b", "x"]],
    ['"open', undefined],
    ["", []],
  ] as const)
    assert.deepEqual(
      splitWords(text)?.map((word) => word.text),
      words,
      text,
    );
});

async function nodeOf(t: Parameters<typeof makeNode>[0], tree: NodeTree): Promise<NodeFiles> {
  return new NodeFiles(makeNode(t, tree));
}

describe("loadUnit()", () => {
  test("reads drop-ins sorted by name over all directories; of one name that of /etc", async (t) => {
    const files = await nodeOf(t, {
      "/usr/lib/systemd/system/x.service": "[Service]\nExecStart=/a\n",
      "/usr/lib/systemd/system/x.service.d/10-a.conf": "[Service]\nEnvironment=LOST=1\n",
      "/etc/systemd/system/x.service.d/10-a.conf": "[Service]\nEnvironment=A=etc\n",
      "/run/systemd/system/x.service.d/20-b.conf": "[Service]\nExecStart=\nExecStart=/b\n",
      "/usr/lib/systemd/system/x.service.d/05-c.conf": "[Service]\nEnvironment=A=first\n",
      "/etc/systemd/system/x.service.d/30-masked.conf": { linkTo: "/dev/null" },
      "/etc/systemd/system/x.service.d/readme.txt": "not a drop-in",
    });
    const unit = await loadUnit(files, "x.service");
    assert.ok(unit);
    assert.deepEqual(unit.dropIns, [
      "/usr/lib/systemd/system/x.service.d/05-c.conf",
      "/etc/systemd/system/x.service.d/10-a.conf",
      "/run/systemd/system/x.service.d/20-b.conf",
    ]);
    const values = listValues(unit, "Service", "ExecStart").map(({ value }) => value);
    assert.deepEqual(values, ["/b"]);
    const found = listValues(unit, "Service", "Environment").map(({ value }) => value);
    assert.deepEqual(found, ["A=first", "A=etc"]);
  });

  test("follows links below the root directory, and knows masked and enabled units", async (t) => {
    const files = await nodeOf(t, {
      "/lib": { linkTo: "/usr/lib" },
      "/usr/lib/systemd/system/y.service": "[Service]\nExecStart=/y\n",
      "/etc/systemd/system/alias.service": { linkTo: "/lib/systemd/system/y.service" },
      "/etc/systemd/system/off.service": { linkTo: "/dev/null" },
      "/etc/systemd/system/multi-user.target.wants/y.service": { linkTo: "/lib/systemd/system/y.service" },
    });
    const [alias, off, plain] = await Promise.all(
      ["alias.service", "off.service", "y.service"].map((name) => loadUnit(files, name)),
    );
    assert.equal(alias?.path, "/usr/lib/systemd/system/y.service");
    assert.equal(off?.isMasked, true);
    assert.deepEqual([plain?.isEnabled, alias.isEnabled], [true, false]);
    assert.equal(await loadUnit(files, "none.service"), undefined);
  });

  test("reports a link that leads nowhere and a file that is not UTF-8", async (t) => {
    const files = await nodeOf(t, { "/etc/systemd/system/z.service": { linkTo: "/gone" } });
    const unit = await loadUnit(files, "z.service");
    assert.deepEqual(unit?.problems, [
      { place: "/etc/systemd/system/z.service", text: "is a link that leads nowhere" },
    ]);
  });
});

describe("readService()", () => {
  test("an environment file wins over Environment=, and a missing one without a dash is a problem", async (t) => {
    const files = await nodeOf(t, {
      "/etc/systemd/system/kubelet.service": `[Service]
Environment=A=--one "B=--two --three"
EnvironmentFile=/etc/a.env
EnvironmentFile=/etc/missing.env
ExecStart=-/usr/bin/kubelet $A --x=\${B} $NONE --y=%H --z=%t/%i/100%%
`,
      "/etc/hostname": "Node-1\n",
      "/etc/a.env": "# comment\nA='--one=file'\nbroken line\n",
    });
    const service = await readService(files, "kubelet.service");
    assert.ok(service);
    assert.deepEqual(
      service.command.words.map(({ text }) => text),
      ["/usr/bin/kubelet", "--one=file", "--x=--two --three", "--y=Node-1", "--z=/run/%i/100%"],
    );
    const places = service.command.problems.map(({ place }) => place);
    assert.deepEqual(places, ["/etc/a.env:3", "/etc/missing.env"]);
  });

  for (const [lines, words] of [
    ["ExecStart=:/usr/bin/kubelet $A", "/usr/bin/kubelet $A"],
    ["UnsetEnvironment=A B=2\nExecStart=-/usr/bin/kubelet $A $B", "/usr/bin/kubelet --b"],
    ["UnsetEnvironment=B=--b\nExecStart=/usr/bin/kubelet $A $B", "/usr/bin/kubelet --a"],
  ] as const)
    test(`${lines.replace("\n", ", ")} runs ${words}`, async (t) => {
      const unit = `[Service]\nEnvironment=A=--a B=--b\n${lines}\n`;
      const files = await nodeOf(t, { "/etc/systemd/system/kubelet.service": unit });
      const service = await readService(files, "kubelet.service");
      assert.equal(service?.command.words.map(({ text }) => text).join(" "), words);
    });

  test("EnvironmentFile= may have wildcards, whose files are read in order", async (t) => {
    const files = await nodeOf(t, {
      "/etc/systemd/system/kubelet.service": `[Service]
EnvironmentFile=/etc/k*/[a-c]?.env
EnvironmentFile=-/etc/none*.env
EnvironmentFile=/etc/needed[!x]*
EnvironmentFile=-/etc/[z-a]
ExecStart=/usr/bin/kubelet $A $B
`,
      "/etc/kube/b1.env": "A=--b1\nB=--b\n",
      "/etc/kube/a1.env": "A=--a1\n",
      "/etc/kube/.a.env": "A=--hidden\n",
      "/etc/kube/d1.env": "A=--d1\n",
      "/etc/neededx1": "A=--x\n",
    });
    const service = await readService(files, "kubelet.service");
    assert.ok(service);
    const rows = service.flags.map(({ name, file }) => [name, file]);
    assert.deepEqual(rows, [
      ["b1", "/etc/kube/b1.env"],
      ["b", "/etc/kube/b1.env"],
    ]);
    assert.deepEqual(service.command.environmentFiles, ["/etc/kube/a1.env", "/etc/kube/b1.env"]);
    const places = service.command.problems.map(({ place }) => place);
    assert.deepEqual(places, ["/etc/needed[!x]*"]);
  });
});
