// Drives a Chromium for a test of the console: reads commands from stdin, one JSON object a line, and answers each with one. It ends with
// stdin. What a page complains about (script errors, what its policy has blocked, dialogs) is collected for "complaints".
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox"], // it opens our own pages alone, and has no sandbox as root
});
const context = await browser.newContext({ ignoreHTTPSErrors: true }); // a listener's certificate is of an authority that the test has made
context.setDefaultTimeout(60_000);
await context.addInitScript({ content: readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8") });
const page = await context.newPage();
const complaints = [];
page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(`console: ${m.text()}`));
page.on("pageerror", (e) => complaints.push(`script: ${e.message}`));
page.on("dialog", (d) => { complaints.push(`dialog: ${d.message()}`); d.dismiss(); });
page.on("request", (r) => new URL(r.url()).host !== new URL(page.url() === "about:blank" ? r.url() : page.url()).host && r.url() !== "data:," && complaints.push(`asks elsewhere: ${r.url()}`));

const commands = {
  open: async ({ url }) => (await page.goto(url)).status(),
  click: ({ role, name }) => page.getByRole(role, { name, exact: true }).first().click(),
  fill: ({ name, text }) => page.getByLabel(name).fill(text),
  confirm: async ({ name, text }) => { // the form of a button, with its reason
    const form = page.locator("form").filter({ has: page.getByRole("button", { name, exact: true }) });
    await form.getByLabel("Reason, which is kept").fill(text);
    await form.getByRole("button", { name, exact: true }).click();
  },
  press: ({ name }) => page.keyboard.press(name),
  type: ({ text }) => page.keyboard.type(text), // where the focus is
  focused: () => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.name),
  at: () => page.url(),
  clock: () => page.clock.install().then(() => null), // of the pages that are opened from now on
  forward: ({ seconds }) => page.clock.fastForward(1000 * seconds).then(() => null),
  see: ({ role, text }) => page.getByRole(role).filter({ hasText: text }).first().waitFor(),
  text: () => page.locator("main").innerText(),
  whole: () => page.evaluate(() => document.querySelector("main")?.textContent ?? ""), // what is folded up, too
  body: () => page.locator("body").innerText(),
  part: ({ selector }) => page.locator(selector).textContent(),
  links: () => page.evaluate(() => [...document.links].map((a) => a.getAttribute("href"))),
  // markup is what of a sender's text has become elements or attributes, which carry data-injected, and links that would run script.
  markup: () => page.evaluate(() => [...document.querySelectorAll("[data-injected], [href^='javascript:' i], [onerror], [onload]")].map((e) => e.outerHTML)),
  look: ({ scheme, width }) => Promise.all([page.emulateMedia({ colorScheme: scheme }), page.setViewportSize({ width, height: 900 })]).then(() => null),
  shot: ({ file, top }) => page.screenshot({ path: file, fullPage: !top }).then(() => null), // the whole page, or what a screen has of it
  overflow: () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
  axe: async () => (await page.evaluate(() => axe.run())).violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html}: ${n.failureSummary}`)),
  complaints: () => complaints.splice(0),
};

console.log(JSON.stringify({ value: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await commands[command.do](command)) ?? null }));
  } catch (e) {
    console.log(JSON.stringify({ error: `${line}: ${e.message}\nat ${page.url()}:\n${await page.locator("body").innerText().catch(() => "")}` }));
  }
}
await browser.close();
