/** `text` of any origin, without what a terminal would act on: control and format characters by number. */
export function shownText(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (unit) => `\\u{${unit.codePointAt(0)?.toString(16) ?? ""}}`,
  );
}
