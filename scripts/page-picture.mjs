#!/usr/bin/env node
/**
 * Opens the pages for people (src/shim/page) in a Chromium of this host, with the sample of their tests, in light and dark:
 * axe-core must find nothing there, nothing may be wider than a small screen, and docs/run/pictures is written.
 *
 *   node scripts/page-picture.mjs [BROWSER]     default: chromium-headless-shell, else chromium, of PATH
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tsImport } from "tsx/esm/api";
import { repositoryRoot } from "./setup/paths.mjs";

const schemes = /** @type {const} */ (["light", "dark"]);
const width = 1200;
/** In pixels; what is 320 wide shows a page at 400 % on 1280. */
const smallWidth = 320;
/** How long the browser may take to answer. */
const answerMs = 60_000;

const [browser = browserOfPath()] = process.argv.slice(2);
const { browserPages } = await tsImport("../src/shim/page/browser-pages.ts", import.meta.url);
const { startMetricsServer } = await tsImport("../src/shim/metrics/metrics-server.ts", import.meta.url);
const { pageSample, samplePodId } = await tsImport("../test/fakes/page-sample.ts", import.meta.url);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const pictures = join(repositoryRoot, "docs", "run", "pictures");
await mkdir(pictures, { recursive: true });
const server = await startMetricsServer({
  address: { kind: "tcp", host: "127.0.0.1", port: 0 },
  pages: {},
  browserPages: browserPages(pageSample()),
  log: console,
});
const profile = await mkdtemp(join(tmpdir(), "dockershim-page-"));
const chromium = spawn(
  browser,
  [
    ...["--headless", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "--hide-scrollbars"],
    // Its sandbox refuses root; the page is this program's own.
    ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
  ],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);
try {
  const send = protocolOf(chromium);
  /** Each with the pictures of it that the documents have. */
  const pages = /** @type {const} */ ([
    ["/", ["page-light", "page-dark"]],
    [`/pods/${samplePodId}`, ["page-pod-light"]],
    ["/pods/nothing", []],
  ]);
  for (const [path, names] of pages) {
    for (const scheme of schemes) {
      const tab = await openTab(send, `${server.endpoint}${path}`, scheme);
      const problems = await axeProblems(tab);
      if (problems.length > 0) throw new Error(`${path}, ${scheme}: ${problems.join("\n")}`);
      console.log(`${path}, ${scheme}: axe-core finds nothing`);
      const name = names.find((one) => one.endsWith(scheme));
      if (name !== undefined) await writeFile(join(pictures, `${name}.png`), await screenshot(tab));
      await tab("Emulation.setDeviceMetricsOverride", metrics(smallWidth));
      const widest = await evaluate(tab, "document.documentElement.scrollWidth");
      if (widest > smallWidth)
        throw new Error(`${path} is ${widest} pixels wide on a screen of ${smallWidth}`);
      await tab("Page.close");
    }
  }
} finally {
  const ended = once(chromium, "exit");
  if (chromium.exitCode === null && chromium.kill()) await ended;
  await server.close();
  await rm(profile, { recursive: true, force: true, maxRetries: 3 });
}

function browserOfPath() {
  const found = ["chromium-headless-shell", "chromium"].find(
    (name) => spawnSync(name, ["--version"]).error === undefined,
  );
  if (found === undefined) throw new Error("there is no Chromium: write the path of one");
  return found;
}

/**
 * The protocol of the browser's developer tools, over its pipes: JSON with a zero byte behind each message.
 * @typedef {(method: string, parameters?: object) => Promise<any>} Send
 * @param {import("node:child_process").ChildProcess} process
 * @returns {(method: string, parameters?: object, sessionId?: string) => Promise<any>}
 */
function protocolOf(process) {
  /**
   * any: each command of the browser has a result of its own, which its caller knows.
   * @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>}
   */
  const waiting = new Map();
  const [, , , input, output] = process.stdio;
  if (!input || !("write" in input) || !output || !("setEncoding" in output)) throw new Error("no pipes");
  let text = "";
  output.setEncoding("utf8").on("data", (/** @type {string} */ chunk) => {
    const messages = (text + chunk).split("\0");
    text = messages.pop() ?? "";
    for (const message of messages) {
      const { id, result, error } = JSON.parse(message);
      if (error) waiting.get(id)?.reject(new Error(error.message));
      else waiting.get(id)?.resolve(result);
      waiting.delete(id);
    }
  });
  const fail = (/** @type {Error} */ error) => {
    for (const { reject } of waiting.values()) reject(error);
  };
  process.once("error", fail).once("exit", () => fail(new Error(`${browser} has ended`)));
  let last = 0;
  return (method, parameters = {}, sessionId) => {
    last += 1;
    const id = last;
    input.write(`${JSON.stringify({ id, method, params: parameters, sessionId })}\0`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer of ${browser}`)), answerMs);
      const done = (/** @type {() => void} */ settle) => {
        clearTimeout(timer);
        settle();
      };
      waiting.set(id, {
        resolve: (result) => done(() => resolve(result)),
        reject: (error) => done(() => reject(error)),
      });
    });
  };
}

/**
 * @param {ReturnType<typeof protocolOf>} send
 * @param {string} url
 * @param {(typeof schemes)[number]} scheme
 * @returns {Promise<Send>}
 */
async function openTab(send, url, scheme) {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  /** @type {Send} */
  const tab = (method, parameters) => send(method, parameters, sessionId);
  await tab("Emulation.setDeviceMetricsOverride", metrics(width));
  await tab("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await tab("Page.navigate", { url });
  // Pictures and style are loaded with the document.
  const deadline = Date.now() + answerMs;
  while ((await evaluate(tab, "document.URL + document.readyState")) !== `${url}complete`) {
    if (Date.now() > deadline) throw new Error(`${url} is not loaded`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return tab;
}

/** @param {number} wide */
function metrics(wide) {
  return { width: wide, height: 800, deviceScaleFactor: 1, mobile: false };
}

/**
 * @param {Send} tab
 * @param {string} expression
 */
async function evaluate(tab, expression) {
  const { result, exceptionDetails } = await tab("Runtime.evaluate", {
    expression,
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/**
 * All rules of axe-core, also its recommendations; and what it could not decide, as contrast above a picture.
 * @param {Send} tab
 * @returns {Promise<string[]>}
 */
async function axeProblems(tab) {
  await evaluate(tab, `${axe};undefined`);
  return evaluate(
    tab,
    `axe.run().then(({ violations, incomplete }) => [...violations, ...incomplete].map(
      ({ id, help, nodes }) => id + ": " + help + ": " + nodes.slice(0, 3).map(({ html }) => html).join(" ")))`,
  );
}

/**
 * All of the page, as PNG.
 * @param {Send} tab
 */
async function screenshot(tab) {
  const { cssContentSize } = await tab("Page.getLayoutMetrics");
  const clip = { x: 0, y: 0, width, height: Math.ceil(cssContentSize.height), scale: 1 };
  const { data } = await tab("Page.captureScreenshot", { format: "png", captureBeyondViewport: true, clip });
  return Buffer.from(data, "base64");
}
