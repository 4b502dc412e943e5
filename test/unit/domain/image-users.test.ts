import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseImageUserFiles, resolveImageUser } from "../../../src/shim/domain/image-users.js";

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
const files = parseImageUserFiles(passwd, group);

describe("resolveImageUser() follows Docker's rules for Config.User", () => {
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
    test(JSON.stringify(text), () => {
      const { home: _home, ...resolved } = resolveImageUser(files, text) ?? {};
      assert.deepEqual(resolved, { uid, gid, supplementaryGroups, name });
    });
  }

  for (const text of [
    "nobody",
    "odd",
    "huge",
    "app:nobody",
    "app:nogid",
    "2147483648",
    "-1",
    "1000:-1",
    "1000:99999999999",
  ]) {
    test(`${JSON.stringify(text)} is unknown`, () => {
      assert.equal(resolveImageUser(files, text), undefined);
    });
  }
});

test("resolveImageUser() knows only ids when the image has no files", () => {
  const none = parseImageUserFiles("", "");
  assert.deepEqual(resolveImageUser(none, ""), {
    uid: 0,
    gid: 0,
    name: undefined,
    home: undefined,
    supplementaryGroups: [],
  });
  assert.equal(resolveImageUser(none, "root"), undefined);
});

test("parseImageUserFiles() keeps the first 200000 lines of an endless file", () => {
  const endless = Array.from({ length: 300_000 }, (_, index) => `u${index}:x:${index}:1::/:`).join("\n");
  assert.equal(parseImageUserFiles(endless, "").usersByName.size, 200_000);
});

test("resolveImageUser() gives each home directory and cuts the number of groups", () => {
  assert.equal(resolveImageUser(files, "app")?.home, "/home/app");
  const many = Array.from({ length: 70_000 }, (_, gid) => `g${gid}:x:${gid}:app`).join("\n");
  assert.equal(
    resolveImageUser(parseImageUserFiles(passwd, many), "app")?.supplementaryGroups.length,
    65_536,
  );
});
