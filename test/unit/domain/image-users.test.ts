import assert from "node:assert/strict";
import { test } from "node:test";
import { ImageUserFiles } from "../../../src/domain/image-users.js";

const passwd = `root:x:0:0:root:/root:/bin/sh
# comment
broken line
:x:5:5::/:
odd:x:abc:7::/:
huge:x:4294967296:7::/:
  app:x:1000:1001:App:/home/app:/bin/sh\r
app:x:1:1:second entry::
twin:x:1000:9::/twin:
500:x:501:501:a name of digits:/five:
`;
const group = `root:x:0:root
staff:x:50:app,other
audio:x:29:app
audio:x:29:app
application:x:60:application
nogid:x::app
padded:x:70: app , twin
`;
const files = new ImageUserFiles(passwd, group);

test("resolve() follows Docker's rules for Config.User", () => {
  const table: readonly [
    text: string,
    uid: number,
    gid: number,
    groups: readonly number[],
    name: string | undefined,
  ][] = [
    ["", 0, 0, [0], "root"],
    ["root", 0, 0, [0], "root"],
    ["0", 0, 0, [0], "root"],
    ["app", 1000, 1001, [50, 29, 70], "app"],
    ["1000", 1000, 1001, [50, 29, 70], "app"],
    ["1000:", 1000, 1001, [50, 29, 70], "app"],
    ["1000:50", 1000, 50, [], "app"],
    ["app:audio", 1000, 29, [], "app"],
    [":staff", 0, 50, [], "root"],
    ["twin", 1000, 9, [70], "twin"],
    ["500", 500, 0, [], undefined],
    ["65534", 65534, 0, [], undefined],
    ["65534:65533", 65534, 65533, [], undefined],
    ["2147483647", 2147483647, 0, [], undefined],
  ];
  for (const [text, uid, gid, supplementaryGroups, name] of table) {
    const { home: _home, ...resolved } = files.resolve(text) ?? {};
    assert.deepEqual(resolved, { uid, gid, supplementaryGroups, name }, text);
  }
  const negative = ["-1", "1000:-1", "1000:99999999999", "2147483648"];
  for (const unknown of ["nobody", "odd", "huge", "app:nobody", "app:nogid", ...negative])
    assert.equal(files.resolve(unknown), undefined, unknown);
});

test("resolve() knows only ids when the image has no files", () => {
  const none = new ImageUserFiles("", "");
  assert.deepEqual(none.resolve(""), {
    uid: 0,
    gid: 0,
    name: undefined,
    home: undefined,
    supplementaryGroups: [],
  });
  assert.equal(none.resolve("root"), undefined);
});

test("resolve() finds the last of many lines, and gives up for a name with endless lines that are no entry", () => {
  const passwd = Array.from({ length: 100_000 }, (_, index) => `u${index}:x:${index}:1::/:`).join("\n");
  const groups = Array.from({ length: 100_000 }, (_, index) => `g${index}:x:${index}:u${index},x`).join("\n");
  const many = new ImageUserFiles(passwd, groups);
  const last = { uid: 99_999, gid: 1, name: "u99999", home: "/", supplementaryGroups: [99_999] };
  assert.deepEqual(many.resolve("u99999"), last);
  assert.deepEqual(many.resolve("099999"), last);
  const broken = new ImageUserFiles(`${"app:x:\n".repeat(70_000)}app:x:1:1::/:`, "");
  assert.equal(broken.resolve("app"), undefined);
});

test("resolve() has no groups for a name of megabytes", () => {
  const name = "n".repeat(4 * 1024 * 1024);
  const files = new ImageUserFiles(`${name}:x:1:2::/:`, `g:x:3:${name}`);
  assert.deepEqual(files.resolve("1")?.supplementaryGroups, []);
  assert.equal(files.resolve(name), undefined);
});

test("resolve() takes names as they are, not as patterns", () => {
  const odd = new ImageUserFiles("aXb:x:1:1::/:\na.b:x:2:2::/:\n(:x:3:3::/:", "g:x:9:aXb\nh:x:10:a.b,(\n");
  assert.deepEqual([odd.resolve("a.b")?.uid, odd.resolve("a.b")?.supplementaryGroups], [2, [10]]);
  assert.equal(odd.resolve("(")?.uid, 3);
});

test("resolve() gives each home directory and cuts the number of groups", () => {
  assert.equal(files.resolve("app")?.home, "/home/app");
  const many = Array.from({ length: 70_000 }, (_, gid) => `g${gid}:x:${gid}:app`).join("\n");
  assert.equal(new ImageUserFiles(passwd, many).resolve("app")?.supplementaryGroups.length, 65_536);
});
