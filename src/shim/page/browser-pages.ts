/** The pages for people, by path. */
import type { PageAnswer } from "./document.js";
import { nodePage } from "./node-page.js";
import { stylesheet } from "./page-css.js";
import type { PageSources } from "./page-sources.js";
import { podPage } from "./pod-page.js";

export type BrowserPages = Readonly<
  Record<string, (signal: AbortSignal, segment: string) => Promise<PageAnswer>>
>;

/** `*` is one segment of the path. */
export function browserPages(sources: PageSources): BrowserPages {
  return {
    "/": () => Promise.resolve(nodePage(sources, { watched: false })),
    "/watch": () => Promise.resolve(nodePage(sources, { watched: true })),
    "/page.css": () => Promise.resolve(stylesheet),
    "/pods/*": (_signal, id) => podPage(sources, id),
  };
}
