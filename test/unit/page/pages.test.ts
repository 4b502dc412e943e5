import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { explain } from "../../../src/history/explain.js";
import { browserPages } from "../../../src/shim/page/browser-pages.js";
import type { PageAnswer } from "../../../src/shim/page/document.js";
import type { PageSources } from "../../../src/shim/page/page-sources.js";
import {
  endedCall,
  modelOf,
  pageSample,
  recentOf,
  sampleNowMs,
  samplePodId,
  type SamplePod,
} from "../../fakes/page-sample.js";
import { idOf } from "../../fakes/snapshots.js";
import { tagsOf, type Tag } from "../../support/page-tags.js";

const never = new AbortController().signal;
const webPod = idOf("d2");

async function answer(path: string, sources: PageSources = pageSample(), segment = ""): Promise<PageAnswer> {
  const page = browserPages(sources)[path];
  assert.ok(page !== undefined, path);
  return page(never, segment);
}

/** All pages of a node, with their paths. */
async function pagesOf(sources: PageSources): Promise<readonly (readonly [string, PageAnswer])[]> {
  const ids = [...sources.model.sandboxes()].slice(0, 3).map(({ id }) => id);
  return Promise.all([
    ...["/", "/watch"].map(async (path) => [path, await answer(path, sources)] as const),
    ...[...ids, "nothing"].map(async (id) => [`/pods/${id}`, await answer("/pods/*", sources, id)] as const),
  ]);
}

/** The texts of the cells of each row of the table below the heading with this id. */
function rowsOf({ body }: PageAnswer, id: string): readonly (readonly string[])[] {
  const section = body.slice(body.indexOf(`<h2 id="${id}">`)).split("</section>")[0] ?? "";
  return section
    .split("<tr>")
    .slice(1)
    .map((row) =>
      [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = ""]) =>
        cell
          .replaceAll(/<[^>]*>/g, " ")
          .replaceAll(/\s+/g, " ")
          .replaceAll(" ,", ",")
          .trim(),
      ),
    );
}

function captionOf({ body }: PageAnswer, id: string): string {
  const section = body.slice(body.indexOf(`<h2 id="${id}">`));
  return (/<caption>(.*?)<\/caption>/s.exec(section)?.[1] ?? "").trim();
}

/** The SVG of the pod's time line; empty without one. */
function pictureOf({ body }: PageAnswer): string {
  const [, base64 = ""] = /"data:image\/svg\+xml;base64,([^"]*)"/.exec(body) ?? [];
  return Buffer.from(base64, "base64").toString();
}

function manyPods(count: number): readonly SamplePod[] {
  return Array.from({ length: count }, (_, index) => ({
    id: idOf(`e${String(index).padStart(6, "0")}`),
    ...{ namespace: "many", name: `pod-${String(index)}`, ageMs: 1000 + index },
    containers: [{ name: "main", image: "busybox", state: {} }],
  }));
}

describe("the page of the node", () => {
  test("tells of a lost engine why it is lost, and of conditions their reasons", async () => {
    const reason = { message: "connect to /run/docker.sock: connection refused" };
    const page = await answer(
      "/",
      pageSample({
        conditions: () => [
          { type: "RuntimeReady", status: false, reason: "DockerDaemonNotReady", message: "docker: gone" },
        ],
        link: {
          ...{ state: { phase: "lost", reason }, sinceMs: sampleNowMs - 5000 },
          ...{ lastLoss: { reason, atMs: sampleNowMs - 1000 }, facts: undefined },
        },
        comparedMsAgo: () => undefined,
      }),
    );
    const rows = new Map(rowsOf(page, "engine").map(([name, value]) => [name, value]));
    assert.equal(rows.get("Link"), "lost");
    assert.equal(rows.get("Error"), reason.message);
    assert.match(rows.get("Containers in memory") ?? "", /^compared with the engine never/);
    assert.deepEqual(rowsOf(page, "conditions")[1], [
      ...["RuntimeReady", "false", "DockerDaemonNotReady", "docker: gone"],
    ]);
  });

  test("shows 500 pods, 10 containers of each and 50 calls, and says that there are more", async () => {
    const model = modelOf(manyPods(501));
    const underWay = pageSample().underWay()[0];
    assert.ok(underWay !== undefined);
    const page = await answer(
      "/",
      pageSample({ model, underWay: () => Array.from({ length: 70 }, () => underWay) }),
    );
    assert.equal(rowsOf(page, "pods").length, 501);
    assert.match(captionOf(page, "pods"), /^Pod sandboxes: 501, .*; the 500 newest are shown$/);
    assert.equal(rowsOf(page, "calls").length, 51);
    assert.match(captionOf(page, "calls"), /: 70; the 50 oldest are shown$/);
    const containers = Array.from({ length: 14 }, (_, index) => ({
      ...{ name: `c${String(index)}`, image: "busybox", state: {} },
    }));
    const crowded = modelOf([{ id: idOf("d9"), namespace: "a", name: "b", ageMs: 1, containers }]);
    const cell = rowsOf(await answer("/", pageSample({ model: crowded })), "pods")[1]?.[4] ?? "";
    assert.equal(cell.split("running").length - 1, 10);
    assert.match(cell, /and 4 more$/);
  });

  test("is smaller than 4 MiB, whatever pods call themselves", async () => {
    const long = "<".repeat(1000);
    const containers = Array.from({ length: 20 }, (_, index) => ({
      ...{ name: `${String(index)}${long}`, image: long, state: {} },
    }));
    const pods = manyPods(600).map((pod) => ({ ...pod, namespace: long, name: long, containers }));
    const { body } = await answer("/", pageSample({ model: modelOf(pods) }));
    assert.ok(body.length < 4 * 1024 ** 2, `${String(body.length)} characters`);
  });

  test("reloads itself at /watch alone, and each of the two leads to the other", async () => {
    const [still, watched] = [await answer("/"), await answer("/watch")];
    assert.equal(still.headers["Refresh"], undefined);
    assert.equal(watched.headers["Refresh"], "10");
    assert.match(still.body, /<a href="\.\/watch"/);
    assert.match(watched.body, /<a href="\.\/"/);
  });
});

describe("the page of a pod", () => {
  test("says so when there is no history, no record, or no way to read it", async () => {
    const textWith = async (why: PageSources["why"]) =>
      (await answer("/pods/*", pageSample({ why }), samplePodId)).body;
    assert.match(await textWith(undefined), /The history of pods is off/);
    assert.match(await textWith(() => Promise.resolve(undefined)), /no record of this pod/);
    assert.match(await textWith(() => Promise.reject(new Error("<no> disk"))), /<p>&lt;no&gt; disk<\/p>/);
  });

  test("shows 100 steps and 5 causes of many, and says that there are more", async () => {
    const known = await pageSample().why?.("uid");
    assert.ok(known !== undefined);
    const [step] = known.steps;
    assert.ok(step !== undefined);
    const why = {
      ...known,
      steps: Array.from({ length: 130 }, () => step),
      causes: Array.from({ length: 9 }, () => "cause"),
    };
    const page = await answer("/pods/*", pageSample({ why: () => Promise.resolve(why) }), samplePodId);
    assert.equal(rowsOf(page, "steps").length, 101);
    assert.match(captionOf(page, "steps"), /: 130; the oldest first; the 100 latest are shown$/);
    assert.equal(page.body.split("<li>cause</li>").length - 1, 5);
  });

  test("answers 404 for an id that no sandbox has, and for a prefix", async () => {
    for (const id of ["nothing", webPod.slice(0, 12), "%2e%2e", "__proto__"]) {
      assert.equal((await answer("/pods/*", pageSample(), id)).status, 404);
    }
  });
});

/** What a reader is shown: a line for each heading, row and paragraph, with the places of links and pictures. */
function textOf({ body }: PageAnswer): string {
  const [, shown = ""] = body.split("<body>");
  const text = shown
    .replaceAll(/\s+/g, " ")
    .replaceAll(/<a [^>]*?href="([^"]*)"[^>]*>/g, " [$1] ")
    .replaceAll(/<img [^>]*?alt="([^"]*)"[^>]*>/g, "\npicture: $1")
    .replaceAll(/<(?:h\d|caption|tr|li|p)\b[^>]*>/g, "\n")
    .replaceAll(/<t[hd]\b[^>]*>/g, " | ")
    .replaceAll(/<[^>]*>/g, " ");
  const lines = text.split("\n").map((line) => line.replaceAll(/ +/g, " ").trim());
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}

for (const [name, path] of [
  ["node", "/"],
  ["pod", "/pods/*"],
] as const)
  test(`the page of a ${name} shows what test/golden/pages/${name}.txt has`, async () => {
    const page = await answer(path, pageSample(), samplePodId);
    assert.equal(page.status, 200);
    assert.equal(textOf(page), await readFile(`test/golden/pages/${name}.txt`, "utf8"));
    const title = /^<svg [^]*<title>shop\/queue-0: container &quot;queue&quot; was killed/;
    assert.equal(title.test(pictureOf(page)), name === "pod");
  });

describe("all pages", () => {
  const hostile = "<script>alert('x')</script><img src=x onerror=\"y\">\u202E&lt;]]>--><style>\0\n";

  /** Everything that a pod, an image, a registry or an engine can name. */
  function hostileSources(): PageSources {
    const state = { status: "exited", running: false, exitCode: 1, error: hostile } as const;
    const containers = [{ name: hostile, image: hostile, state }];
    const facts = pageSample().link.facts;
    assert.ok(facts !== undefined);
    return pageSample({
      model: modelOf([{ id: idOf("da"), namespace: hostile, name: hostile, ageMs: 1000, containers }]),
      conditions: () => [{ type: "NetworkReady", status: false, reason: hostile, message: hostile }],
      link: {
        ...{ state: { phase: "lost", reason: { message: hostile } }, sinceMs: 0 },
        lastLoss: { reason: { message: hostile }, atMs: 0 },
        facts: {
          ...{ ...facts, hostName: hostile, operatingSystem: hostile, kernelVersion: hostile },
          ...{ engineVersion: hostile, dockerRootDir: hostile, warnings: [hostile] },
        },
      },
      network: { name: hostile, reason: hostile },
      why: () =>
        Promise.resolve(
          explain(
            {
              ...{ pod: hostile, podUid: hostile },
              records: [
                {
                  ...{ kind: "call", at: 1, rpc: "PullImage", ms: 9, code: "UNKNOWN", error: hostile },
                  subject: { containerName: hostile, image: hostile },
                  spans: [{ what: hostile, kind: "pull", at: 0, ms: 9, error: hostile }],
                },
                {
                  ...{ kind: "exit", at: 1, ms: 1, exitCode: 1, oomKilled: false, error: hostile },
                  subject: { containerName: hostile, containerId: hostile },
                },
              ],
            },
            sampleNowMs,
          ),
        ),
      recent: recentOf([
        endedCall(hostile, {
          ...{ rpc: "PullImage", ms: 5, code: "INTERNAL", message: hostile },
          subject: { pod: hostile, sandboxId: hostile, containerName: hostile, image: hostile },
        }),
      ]),
      underWay: () => [{ rpc: "PullImage", pod: hostile, ms: 1, waitsFor: [hostile] }],
    });
  }

  test("have no tag or attribute that a pod has named, and load only what is theirs", async () => {
    const plain = await pagesOf(pageSample());
    const known = new Set(plain.flatMap(([, page]) => tagsOf(page.body).map(signature)));
    for (const [path, page] of await pagesOf(hostileSources())) {
      const { body } = page;
      const picture = pictureOf(page);
      const elements = [...picture.matchAll(/<([^\s/>]*)/g)].map(([, name = ""]) => name);
      const allowed = ["", "line", "rect", "style", "svg", "text", "title"];
      assert.deepEqual(
        [...new Set(elements)].filter((name) => !allowed.includes(name)),
        [],
        path,
      );
      assert.equal(picture.split("<style").length, picture === "" ? 1 : 2, path);
      assert.doesNotMatch(picture, /\son\w+="|href|url\(|[\0\u202E]/, path);
      assert.ok(body.includes("&lt;script&gt;") || path === "/pods/nothing", path);
      for (const tag of tagsOf(body)) {
        assert.ok(known.has(signature(tag)), `${path}: ${signature(tag)}`);
        for (const key of ["href", "src"]) {
          const target = tag.attributes.get(key) ?? "./";
          assert.match(
            target,
            /^(?:#[a-z]+|\.\.?\/(?:pods\/[0-9a-f]{64}|watch|page\.css)?|data:image\/svg\+xml;base64,[\w+/=]+)$/,
            path,
          );
        }
      }
      assert.doesNotMatch(body, /[\0\u202E]/);
    }
  });

  test("forbid scripts, frames and everything from elsewhere", async () => {
    for (const [path, { headers, contentType }] of await pagesOf(pageSample())) {
      assert.equal(contentType, "text/html; charset=utf-8", path);
      const policy = (headers["Content-Security-Policy"] ?? "").split("; ");
      assert.ok(policy.includes("default-src 'none'"), path);
      assert.deepEqual(
        policy.filter((one) => /script|unsafe|https?:|\*/.test(one)),
        [],
        path,
      );
      assert.equal(headers["X-Frame-Options"], "DENY", path);
    }
  });

  test("can be read without eyes: language, titles, headings in order, captions, scopes, names of regions", async () => {
    for (const [path, { body }] of await pagesOf(pageSample())) {
      const tags = tagsOf(body);
      const named = (name: string) => tags.filter((tag) => tag.name === name);
      assert.equal(tags[0]?.attributes.get("lang"), "en", path);
      assert.match(named("title")[0]?.text ?? "", /\w+ · dockershim$/, path);
      const headings = tags.filter(({ name }) => /^h\d$/.test(name)).map(({ name }) => Number(name[1]));
      assert.equal(headings[0], 1, path);
      assert.equal(headings.filter((level) => level === 1).length, 1, path);
      headings.reduce((before, level) => {
        assert.ok(level <= before + 1, `${path}: h${String(level)} below h${String(before)}`);
        return level;
      });
      assert.equal(named("caption").length, named("table").length, path);
      for (const { text } of named("caption")) assert.ok(text !== "", path);
      for (const { attributes, within, text } of named("th")) {
        assert.equal(attributes.get("scope"), within.includes("thead") ? "col" : "row", path);
        assert.ok(within.includes("tbody") || text !== "", path);
      }
      const ids = tags.flatMap(({ attributes }) => attributes.get("id") ?? []);
      assert.equal(new Set(ids).size, ids.length, `${path}: ids`);
      for (const { attributes } of tags) {
        const wanted = [attributes.get("aria-labelledby"), /^#(.+)/.exec(attributes.get("href") ?? "")?.[1]];
        for (const id of wanted) assert.ok(id === undefined || ids.includes(id), `${path}: ${String(id)}`);
        if (attributes.get("role") === "region") assert.equal(attributes.get("tabindex"), "0", path);
      }
    }
  });
});

function signature({ name, attributes }: Tag): string {
  return `<${[name, ...[...attributes.keys()].sort()].join(" ")}>`;
}
