/** Tables of text. */

/** Columns are two blanks apart. Cells must not have characters that a terminal acts on. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, textWidth(cell));
    });
  }
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - textWidth(cell)))
      .join("  ")
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join("");
}

/** How many columns of a terminal `text` takes at most: characters of other scripts may be wide. */
export function textWidth(text: string): number {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) ?? 0) < 0x1100 ? 1 : 2;
  return width;
}

/** `text`, cut to `columns` with an ellipsis. */
export function cutText(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  let cut = "";
  let width = 1;
  for (const character of text) {
    width += textWidth(character);
    if (width > columns) break;
    cut += character;
  }
  return columns < 1 ? "" : `${cut}…`;
}
