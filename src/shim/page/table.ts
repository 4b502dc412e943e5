/** Tables that screen readers can announce, and that keyboards can scroll. */
import { html, type Html } from "./html.js";

export interface Table {
  /** Of the heading above the table, unique in the page. */
  readonly id: string;
  readonly heading: string;
  /** What the rows are, and which of them are left out. */
  readonly caption: string;
  readonly columns: readonly string[];
  /** The first cell names the row. */
  readonly rows: readonly (readonly Cell[])[];
}

export type Cell = Html | string;

/** With its heading; without rows, a sentence. */
export function table({ id, heading, caption, columns, rows }: Table): Html {
  if (rows.length === 0) return section(id, heading, html`<p>None.</p>`);
  return section(
    id,
    heading,
    html`<div class="scroll" role="region" aria-labelledby="${id}" tabindex="0">
      <table>
        <caption>
          ${caption}
        </caption>
        <thead>
          <tr>
            ${columns.map((column) => html`<th scope="col">${column}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(([name, ...cells]) => row(name ?? "", cells))}
        </tbody>
      </table>
    </div>`,
  );
}

/** Names with one value each. */
export function valueTable(
  { id, heading, caption }: Pick<Table, "id" | "heading" | "caption">,
  values: readonly (readonly [name: string, value: Cell])[],
): Html {
  return section(
    id,
    heading,
    html`<table class="values">
      <caption>
        ${caption}
      </caption>
      <tbody>
        ${values.map(([name, value]) => row(name, [value]))}
      </tbody>
    </table>`,
  );
}

export function section(id: string, heading: string, content: Html): Html {
  return html`
    <section>
      <h2 id="${id}">${heading}</h2>
      ${content}
    </section>
  `;
}

function row(name: Cell, cells: readonly Cell[]): Html {
  return html`<tr>
    <th scope="row">${name}</th>
    ${cells.map((cell) => html`<td>${cell}</td>`)}
  </tr>`;
}
