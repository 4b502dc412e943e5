import fc from "fast-check";

const surrogates = { first: 0xd800, count: 0x800 };

/**
 * Texts of any characters. The unit "binary" of `fc.string()` gives the same, after it has made a table of all of them,
 * which takes a second.
 */
export function unicodeText(lengths: {
  readonly minLength?: number;
  readonly maxLength?: number;
}): fc.Arbitrary<string> {
  const character = fc
    .integer({ min: 0, max: 0x10ffff - surrogates.count })
    .map((code) => String.fromCodePoint(code < surrogates.first ? code : code + surrogates.count));
  return fc.array(character, lengths).map((characters) => characters.join(""));
}
