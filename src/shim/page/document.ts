/** What all pages have in common: head, headers of HTTP, and how the parts of a page follow each other. */
import { html, htmlText, type Html } from "./html.js";
import { shownTime } from "./shown-values.js";

export interface PageAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Document {
  readonly title: string;
  /** Relative path of the page `/`, so that a proxy may serve the pages below a path of its own. */
  readonly root: "./" | "../";
  readonly navigation: Html;
  readonly content: Html;
  readonly nowMs: number;
  readonly status?: number;
  /** The browser asks again after this time. */
  readonly reloadSeconds?: number;
}

/** No scripts, and nothing from elsewhere: also not by what a name of a pod could bring into the page. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

export const securityHeaders = {
  "Content-Security-Policy": contentSecurityPolicy,
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
  "Cross-Origin-Resource-Policy": "same-origin",
};

export function documentOf({
  title,
  root,
  navigation,
  content,
  nowMs,
  status = 200,
  reloadSeconds,
}: Document): PageAnswer {
  // Not a part of the tagged template, of which the bundle keeps every character as it is: readProgram() reads ASCII.
  const documentTitle = `${title} · dockershim`;
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${documentTitle}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="stylesheet" href="${root}page.css" />
      </head>
      <body>
        <header>
          <h1>${title}</h1>
          <p>As of ${shownTime(nowMs)}</p>
          ${navigation}
        </header>
        <main>${content}</main>
      </body>
    </html> `;
  return {
    status,
    contentType: "text/html; charset=utf-8",
    body: htmlText(page),
    headers: {
      ...securityHeaders,
      ...(reloadSeconds === undefined ? {} : { Refresh: String(reloadSeconds) }),
    },
  };
}
