import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isDebianLike } from "../../../scripts/setup/install.mjs";

describe("isDebianLike()", () => {
  const cases: [string, string, boolean][] = [
    ["Debian", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n', true],
    ["Ubuntu", 'ID=ubuntu\nID_LIKE=debian\nHOME_URL="https://www.ubuntu.com/"\n', true],
    ["Mint", 'ID=linuxmint\nID_LIKE="ubuntu debian"\n', true],
    ["Fedora", 'ID=fedora\nREDHAT_SUPPORT_PRODUCT="not debian"\n', false],
    ["a file that names Debian elsewhere", 'NAME="x"\nVARIANT_ID=debian\n', false],
    ["no file", "", false],
  ];
  for (const [name, text, expected] of cases) {
    test(`is ${expected} for ${name}`, () => {
      assert.equal(isDebianLike(text), expected);
    });
  }
});
