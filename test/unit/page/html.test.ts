import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { html, htmlText } from "../../../src/shim/page/html.js";

describe("html", () => {
  const cases: readonly (readonly [what: string, value: string, shown: string])[] = [
    ["a tag", "<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"],
    ["the end of an attribute", `" onload="x' y='`, "&quot; onload=&quot;x&#39; y=&#39;"],
    ["a reference", "&lt;&#60;", "&amp;lt;&amp;#60;"],
    ["what turns the direction of text", "a\u202Eb\u2066", "a\\u{202e}b\\u{2066}"],
    ["control characters", "a\0b\u001B[31m\n", "a\\u{0}b\\u{1b}[31m\\u{a}"],
    ["what looks like a template", "${1}`", "${1}`"],
    ["letters of any script", "Straße 東京 🚢", "Straße 東京 🚢"],
  ];
  for (const [what, value, shown] of cases) {
    test(`escapes ${what}, between tags and in attributes`, () => {
      assert.equal(htmlText(html`<p title="${value}">${value}</p>`), `<p title="${shown}">${shown}</p>`);
    });
  }

  test("leaves templates within templates as they are, and joins lists", () => {
    const items = ["<", ">"].map((text) => html`<b>${text}</b>`);
    assert.equal(htmlText(html`<p>${items}${undefined}${0}</p>`), "<p><b>&lt;</b><b>&gt;</b>0</p>");
  });

  test("takes nothing for HTML that only looks like its result", () => {
    const forged = JSON.parse('{"Symbol(HTML)":"<b>"}') as never;
    assert.throws(() => html`${forged}`);
  });
});
