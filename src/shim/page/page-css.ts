/** The style of all pages. Colours have a contrast of 4.5 to 1 at least, in the light and in the dark. */
import { type PageAnswer, securityHeaders } from "./document.js";

const css = `:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1f2933; --quiet: #52606d; --line: #cbd2d9; --head: #f1f4f7; --link: #0b57a4;
  --good: #146c2e; --bad: #b3261e; --work: #7a4d00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11161c; --text: #e4e7eb; --quiet: #a9b4c0; --line: #3a4551; --head: #1b222b; --link: #8ec1ff;
    --good: #6fd58a; --bad: #ff9a8f; --work: #f2c14e;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 84rem;
  font: 1rem/1.45 system-ui, "DejaVu Sans", sans-serif; color: var(--text); background: var(--page);
}
h1 { margin: 0; font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.5rem; font-size: 1.2rem; }
header p, caption { color: var(--quiet); }
header p { margin: 0.25rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0.5rem 0 0; padding: 0; list-style: none; }
a { color: var(--link); }
a:focus-visible, .scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
table.values { width: auto; }
caption { text-align: left; padding: 0 0 0.4rem; }
th, td { padding: 0.35rem 1rem 0.35rem 0.5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { background: var(--head); white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; }
td { overflow-wrap: anywhere; }
.scroll tbody th { min-width: 10rem; }
.scroll td { min-width: 8rem; }
.scroll time, td span { white-space: nowrap; }
td ul { margin: 0; padding: 0; list-style: none; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.work { color: var(--work); }
code { font: 0.9em ui-monospace, "DejaVu Sans Mono", monospace; }
ol { margin: 0 0 0.75rem; padding-left: 1.5rem; overflow-wrap: anywhere; }
img { display: block; width: 100%; min-width: 60rem; height: auto; }
`;

export const stylesheet: PageAnswer = {
  status: 200,
  contentType: "text/css; charset=utf-8",
  body: css,
  headers: securityHeaders,
};
