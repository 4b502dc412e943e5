/** Tables of text, and ages in them. */

/** Columns are two blanks apart. Cells must not have characters that a terminal acts on. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, textWidth(cell));
    });
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

/** As kubectl: `45s`, `3m12s`, `7m`, `5h`, `2d`. */
export function ageText(time: string, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "-";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}
