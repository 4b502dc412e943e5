import assert from "node:assert/strict";
import { test } from "node:test";
import { Timeline } from "../../../../src/play/view/timeline.js";
import { renderTimeline } from "../../../../src/play/view/timeline-svg.js";
import { makeFixture, podWith } from "../fake-cri.js";

const image = "image: busybox:1";
const key = { namespace: "default", name: "web", uid: "u" };

/** Plays a pod with a kubelet whose time stands still but for hooks and probes. */
async function played(spec: string, exits: Readonly<Record<string, number>> = {}, seconds = 30) {
  const { cri, clock, handlers, kubelet } = makeFixture();
  for (const [name, code] of Object.entries(exits)) cri.exits.set(name, code);
  handlers.hookMs.set("a postStart", 4000);
  const timeline = new Timeline(() => clock.now());
  const start = clock.now();
  using _ = kubelet.listen(timeline);
  kubelet.apply(await podWith(spec), { failFast: false });
  await clock.advance(seconds * 1000);
  await kubelet[Symbol.asyncDispose]();
  const at = (time: number | undefined): string => (time === undefined ? "" : String((time - start) / 1000));
  const rows = timeline.data.rows.map(
    ({ label, bars }) =>
      `${label}: ${bars.map(({ kind, from, to }) => `${kind} ${at(from)}-${at(to)}`).join(", ")}`,
  );
  return { rows, timeline };
}

test("Timeline has the steps of pod and containers, hooks and readiness", async () => {
  const lifecycle = "lifecycle: {postStart: {exec: {command: [x]}}}";
  const probe = "readinessProbe: {exec: {command: [x]}, initialDelaySeconds: 7}";
  const { rows } = await played(
    `  initContainers: [{name: i, ${image}}]\n  containers: [{name: a, image: new:1, ${lifecycle}, ${probe}}]`,
    { i: 0 },
  );
  assert.deepEqual(rows, [
    "default/web: sandbox 0-0, run 4-7, ready 7-",
    "i: create 0-0, start 0-0, run 0-0",
    "a: pull 0-0, create 0-0, start 0-0, hook 0-4, run 0-7, ready 7-",
  ]);
});

test("Timeline has ends, restarts and back-offs", async () => {
  const { rows, timeline } = await played(`  containers: [{name: a, ${image}}]`, { a: 3 }, 15);
  const text = rows[1] ?? "";
  assert.match(text, /^a: create 0-0, start 0-0, run 0-0, create 0-0, start 0-0.*wait 0-10, create 10-10/);
  const marks = timeline.data.rows[1]?.marks.map(({ kind, title }) => `${kind}: ${title}`) ?? [];
  assert.ok(marks.includes("failure: a ended with exit code 3 (Error)"), marks.join("\n"));
  assert.ok(marks.some((mark) => mark.startsWith("failure: Back-off restarting failed container a")));
});

test("Timeline keeps a limited number of rows and steps, draws 200 rows, and counts what is left out", () => {
  const event = { key, at: 1, type: "Normal", reason: "Killing", message: "m", container: "a" } as const;
  const steps = new Timeline(() => 1000);
  for (let at = 0; at < 4100; at += 1) steps.onEvent({ ...event, at });
  assert.deepEqual([steps.data.rows[1]?.marks.length, steps.data.skipped], [4000, 100]);
  assert.match(renderTimeline(steps.data), />100 later steps are not shown\.</);
  const { container: _, ...ofPod } = event;
  const rows = new Timeline(() => 1000);
  for (let index = 0; index < 1100; index += 1)
    rows.onEvent({ ...ofPod, key: { ...key, name: `p${index}` } });
  assert.deepEqual([rows.data.rows.length, rows.data.skipped], [1000, 100]);
  const svg = renderTimeline(rows.data);
  assert.match(svg, />800 more rows are not shown\.</);
  assert.equal(svg.match(/class="pod"/g)?.length, 200);
  assert.match(renderTimeline({ rows: [], skipped: 0 }), /^<svg [^]*<\/svg>\n$/);
});

test("renderTimeline() draws escaped labels, titles, durations and an axis", () => {
  const timeline = new Timeline(() => 1000);
  const message = 'Pulled <image> & "x"\u001B[2J';
  const pulled = { type: "Normal", reason: "Pulled", message, container: "a<b" } as const;
  timeline.onEvent({ ...pulled, key, at: 4500, startedAt: 1000 });
  const svg = renderTimeline(timeline.data);
  assert.match(svg, /<title>Pulled &lt;image&gt; &amp; &quot;x&quot;\\u\{1b\}\[2J: 3\.5 s<\/title>/);
  assert.match(svg, />a&lt;b<\/text>/);
  assert.match(svg, />pull 3\.5 s<\/text>/);
  for (const tick of ["0.0 s", "0.5 s", "3.5 s"]) assert.ok(svg.includes(`>${tick}</text>`), tick);
  assert.match(svg, /prefers-color-scheme: dark/);
});
