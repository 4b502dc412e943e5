/** What the server of metrics answers with. */

export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** Ends its connection. */
export interface Refusal extends Page {
  readonly headers: Readonly<Record<string, string>>;
}

/** A condition of Status, as the CRI has it. */
export interface Condition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export function pageOf(status: number, body: string): Page {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

export function isRefusal(page: Page): page is Refusal {
  return "headers" in page;
}

export function notFoundPage(paths: readonly string[]): Page {
  return pageOf(404, `not found; there are ${paths.join(", ")}\n`);
}

/** That this was written is all that it says: the event loop turns. */
export const healthPage: Page = pageOf(200, "ok\n");

/** 200 when all conditions are met, else 503; the body says which are, in the form of the kubelet's own pages. */
export function readinessPage(conditions: readonly Condition[]): Page {
  const ready = conditions.every(({ status }) => status);
  const lines = conditions.map(({ type, status, reason, message }) =>
    status ? `[+]${type} ok` : `[-]${type} failed: ${reason}: ${oneLine(message)}`,
  );
  return pageOf(ready ? 200 : 503, [...lines, `readyz check ${ready ? "passed" : "failed"}`, ""].join("\n"));
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*[\r\n]+\s*/g, " ");
}
