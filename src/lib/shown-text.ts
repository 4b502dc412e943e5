/** With an ellipsis in place of what is beyond so many characters. */
export function cutText(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
}

/** JSON in which a terminal acts on nothing: `JSON.stringify` leaves control characters beyond ASCII as they are. */
export function shownJson(json: string): string {
  return json.replaceAll(
    /[\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** `text` of any origin, without what a terminal would act on: control and format characters by number. */
export function shownText(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (unit) => `\\u{${unit.codePointAt(0)?.toString(16) ?? ""}}`,
  );
}
